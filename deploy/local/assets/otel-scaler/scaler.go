package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"net/http"
	"strconv"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// scaler answers KEDA from the store.
type scaler struct {
	pb.UnimplementedExternalScalerServer
	store    *store
	interval time.Duration
}

func (s *scaler) IsActive(_ context.Context, ref *pb.ScaledObjectRef) (*pb.IsActiveResponse, error) {
	value, err := s.value(ref)
	return &pb.IsActiveResponse{Result: value > 0}, err
}

func (s *scaler) StreamIsActive(
	ref *pb.ScaledObjectRef, stream grpc.ServerStreamingServer[pb.IsActiveResponse],
) error {
	ticker := time.NewTicker(s.interval)
	defer ticker.Stop()
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case <-ticker.C:
			active, err := s.IsActive(stream.Context(), ref)
			if err == nil {
				err = stream.Send(active)
			}
			if err != nil {
				return err
			}
		}
	}
}

func (s *scaler) GetMetricSpec(_ context.Context, ref *pb.ScaledObjectRef) (*pb.GetMetricSpecResponse, error) {
	target, err := number(ref, "targetValue")
	if err != nil {
		return nil, err
	}
	spec := &pb.MetricSpec{MetricName: nameOf(ref), TargetSizeFloat: target, TargetSize: int64(target)}
	return &pb.GetMetricSpecResponse{MetricSpecs: []*pb.MetricSpec{spec}}, nil
}

func (s *scaler) GetMetrics(_ context.Context, request *pb.GetMetricsRequest) (*pb.GetMetricsResponse, error) {
	value, err := s.value(request.ScaledObjectRef)
	if err != nil {
		return nil, err
	}
	// KEDA reads the integer field unless the float is above zero.
	found := &pb.MetricValue{MetricName: request.MetricName, MetricValueFloat: value, MetricValue: int64(math.Round(value))}
	return &pb.GetMetricsResponse{MetricValues: []*pb.MetricValue{found}}, nil
}

func (s *scaler) value(ref *pb.ScaledObjectRef) (float64, error) {
	asked, err := parse(ref.ScalerMetadata["metricQuery"])
	if err != nil {
		return 0, status.Error(codes.InvalidArgument, err.Error())
	}
	operation := ref.ScalerMetadata["operationOverTime"]
	if _, known := operations[operation]; !known {
		if operation != "" {
			log.Printf("ScaledObject %s: operationOverTime %q unknown; last_one taken", nameOf(ref), operation)
		}
		operation = defaultOperation
	}
	value, err := s.store.value(asked, operation)
	if err != nil {
		return 0, err
	}
	return clamped(ref, value), nil
}

func clamped(ref *pb.ScaledObjectRef, value float64) float64 {
	if least, err := number(ref, "clampMin"); err == nil {
		value = math.Max(value, least)
	}
	if most, err := number(ref, "clampMax"); err == nil {
		value = math.Min(value, most)
	}
	return value
}

func number(ref *pb.ScaledObjectRef, name string) (float64, error) {
	value, err := strconv.ParseFloat(ref.ScalerMetadata[name], 64)
	if err != nil {
		return 0, status.Errorf(codes.InvalidArgument, "%s of ScaledObject %s not usable: %v", name, nameOf(ref), err)
	}
	return value, nil
}

func nameOf(ref *pb.ScaledObjectRef) string {
	return fmt.Sprintf("%s-%s", ref.Namespace, ref.Name)
}

// queries serves the HTTP API of the original: the present value of a query, and all samples.
func queries(held *store) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /memstore/data", func(writer http.ResponseWriter, _ *http.Request) { reply(writer, held.data()) })
	mux.HandleFunc("POST /memstore/query", func(writer http.ResponseWriter, request *http.Request) {
		body := struct{ Query, OperationOverTime string }{OperationOverTime: defaultOperation}
		err := json.NewDecoder(request.Body).Decode(&body)
		var asked query
		if err == nil {
			asked, err = parse(body.Query)
		}
		var value float64
		if err == nil {
			value, err = held.value(asked, body.OperationOverTime)
		}
		answer := map[string]any{"ok": err == nil, "operation": "query", "error": "", "value": value}
		if err != nil {
			answer["error"] = err.Error()
		}
		reply(writer, answer)
	})
	return mux
}

func reply(writer http.ResponseWriter, answer any) {
	writer.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(writer).Encode(answer); err != nil {
		log.Print(err)
	}
}
