// Command keda-scaler is an external scaler of KEDA for tests: the number in a file is the metric of everybody who asks.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"strings"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
)

const metric = "file"

type scaler struct {
	pb.UnimplementedExternalScalerServer
	file string
}

func (s *scaler) value() (int64, error) {
	text, err := os.ReadFile(s.file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

func (s *scaler) IsActive(context.Context, *pb.ScaledObjectRef) (*pb.IsActiveResponse, error) {
	value, err := s.value()
	return &pb.IsActiveResponse{Result: value > 0}, err
}

func (s *scaler) GetMetricSpec(_ context.Context, ref *pb.ScaledObjectRef) (*pb.GetMetricSpecResponse, error) {
	target, err := strconv.ParseFloat(ref.ScalerMetadata["targetValue"], 64)
	if err != nil {
		return nil, fmt.Errorf("targetValue of the trigger: %w", err)
	}
	spec := &pb.MetricSpec{MetricName: metric, TargetSizeFloat: target}
	return &pb.GetMetricSpecResponse{MetricSpecs: []*pb.MetricSpec{spec}}, nil
}

func (s *scaler) GetMetrics(context.Context, *pb.GetMetricsRequest) (*pb.GetMetricsResponse, error) {
	value, err := s.value()
	if err != nil {
		return nil, err
	}
	found := &pb.MetricValue{MetricName: metric, MetricValueFloat: float64(value)}
	return &pb.GetMetricsResponse{MetricValues: []*pb.MetricValue{found}}, nil
}

func main() {
	address := flag.String("address", "", "where to listen, as host:port")
	file := flag.String("file", "", "file with the number")
	flag.Parse()
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterExternalScalerServer(server, &scaler{file: *file})
	log.Fatal(server.Serve(listener))
}
