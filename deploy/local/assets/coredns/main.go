// Command coredns is CoreDNS with the plugins that a cluster's Corefile names, and no others.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func init() {
	// A plugin is called in the order of this list, whatever the order in the Corefile.
	dnsserver.Directives = []string{"ready", "health", "errors", "cache", "kubernetes", "forward"}
}

func main() { coremain.Run() }
