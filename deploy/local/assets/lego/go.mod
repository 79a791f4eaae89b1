// Traefik's ACME client, whose DNS providers the wrapper of Traefik leaves out.
module aim.eai.amd.com/assets/lego

go 1.26.0

require github.com/go-acme/lego/v5 v5.4.1
