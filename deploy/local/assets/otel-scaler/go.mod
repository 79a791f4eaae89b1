// A scaler for KEDA that receives OTLP; KEDA's own (kedify/otel-add-on) is not in the Go module proxy.
module aim.eai.amd.com/assets/otel-scaler

go 1.26.0

require github.com/kedacore/keda/v2 v2.21.0

require (
	go.opentelemetry.io/proto/otlp v1.11.0
	google.golang.org/grpc v1.84.0
)

require (
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.30.0 // indirect
	golang.org/x/net v0.58.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260904194346-d0f1323225a4 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260904194346-d0f1323225a4 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
