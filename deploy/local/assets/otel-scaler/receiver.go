package main

import (
	"context"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
)

// metricsReceiver stores gauges and sums; labels are the attributes of the data points, not of the resource.
type metricsReceiver struct {
	otlp.UnimplementedMetricsServiceServer
	store *store
}

func (r *metricsReceiver) Export(
	_ context.Context, request *otlp.ExportMetricsServiceRequest,
) (*otlp.ExportMetricsServiceResponse, error) {
	for _, resource := range request.ResourceMetrics {
		for _, scope := range resource.ScopeMetrics {
			for _, metric := range scope.Metrics {
				for _, point := range points(metric) {
					// The Prometheus receiver marks a target that disappeared with points without a value.
					if point.Flags&uint32(metrics.DataPointFlags_DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK) == 0 {
						r.store.put(metric.Name, labelsOf(point.Attributes), sampleOf(point))
					}
				}
			}
		}
	}
	return &otlp.ExportMetricsServiceResponse{}, nil
}

func points(metric *metrics.Metric) []*metrics.NumberDataPoint {
	switch data := metric.Data.(type) {
	case *metrics.Metric_Gauge:
		return data.Gauge.DataPoints
	case *metrics.Metric_Sum:
		return data.Sum.DataPoints
	default:
		return nil
	}
}

func sampleOf(point *metrics.NumberDataPoint) sample {
	at := time.Unix(0, int64(point.TimeUnixNano))
	if number, ok := point.Value.(*metrics.NumberDataPoint_AsInt); ok {
		return sample{at, float64(number.AsInt)}
	}
	return sample{at, point.GetAsDouble()}
}

func labelsOf(attributes []*common.KeyValue) map[string]string {
	labels := map[string]string{}
	for _, one := range attributes {
		// Queries compare strings only.
		if text, ok := one.Value.GetValue().(*common.AnyValue_StringValue); ok {
			labels[one.Key] = text.StringValue
		}
	}
	return labels
}
