// Command otel-scaler is an external scaler of KEDA whose metrics arrive by OTLP.
//
// It is a stand-in for kedify/otel-add-on and implements the subset that KServe uses: the same protocol, ports, metric
// names, defaults and trigger metadata (`metricQuery`, `operationOverTime`, `targetValue`, `clampMin`, `clampMax`).
// It has no pull mode, TLS, internal metrics or lazy series.
package main

import (
	"flag"
	"log"
	"net"
	"net/http"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	otlp "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/grpc"
)

func main() {
	receives := flag.String("otlp-address", ":4317", "address of the OTLP receiver (gRPC)")
	scales := flag.String("scaler-address", ":4318", "address of the external scaler (gRPC)")
	shows := flag.String("query-address", ":9090", "address of the query API (HTTP)")
	retention := flag.Duration("retention", 120*time.Second, "how long a sample is kept")
	interval := flag.Duration("activity-interval", 500*time.Millisecond, "interval of StreamIsActive")
	flag.Parse()

	held := newStore(*retention)
	receiver := grpc.NewServer()
	otlp.RegisterMetricsServiceServer(receiver, &metricsReceiver{store: held})
	keda := grpc.NewServer()
	pb.RegisterExternalScalerServer(keda, &scaler{store: held, interval: *interval})

	failed := make(chan error)
	go func() { failed <- serve(receiver, *receives) }()
	go func() { failed <- serve(keda, *scales) }()
	go func() { failed <- http.ListenAndServe(*shows, queries(held)) }()
	log.Printf("OTLP at %s, scaler at %s, queries at %s", *receives, *scales, *shows)
	log.Fatal(<-failed)
}

func serve(server *grpc.Server, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return server.Serve(listener)
}
