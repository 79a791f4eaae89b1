package main

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	otlp "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
)

const running = `sum(vllm:num_requests_running{namespace="demo", deployment="chat-predictor"})`

func labels(pod string) map[string]string {
	return map[string]string{"namespace": "demo", "deployment": "chat-predictor", "pod": pod}
}

func ref(metadata map[string]string) *pb.ScaledObjectRef {
	return &pb.ScaledObjectRef{Namespace: "demo", Name: "chat-predictor", ScalerMetadata: metadata}
}

func expect[T comparable](t *testing.T, found, wanted T) {
	t.Helper()
	if found != wanted {
		t.Fatalf("found %v, wanted %v", found, wanted)
	}
}

func TestQueriesOfKServeAreUnderstood(t *testing.T) {
	found, err := parse(running)
	expect(t, err, nil)
	expect(t, found.metric, "vllm:num_requests_running")
	expect(t, found.aggregate, "sum")
	expect(t, len(found.labels), 2)
	expect(t, found.labels["deployment"], "chat-predictor")
}

func TestWhatIsNoQueryIsRefused(t *testing.T) {
	for _, text := range []string{"", "sum()", "a{b}", "a{b=c=d}", "a{b=c", "rate(a{b=c}[5m])", "a{}"} {
		if _, err := parse(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestEachAggregateAndOperation(t *testing.T) {
	held := newStore(time.Minute)
	begun := time.Now().Add(-20 * time.Second)
	for at, value := range []float64{4, 1, 7} {
		held.put("load", labels("a"), sample{begun.Add(time.Duration(at) * 5 * time.Second), value})
	}
	held.put("load", labels("b"), sample{begun, 10})
	for text, wanted := range map[string]float64{"sum": 17, "avg": 8.5, "min": 7, "max": 10, "count": 2} {
		asked, err := parse(text + `(load{namespace="demo"})`)
		expect(t, err, nil)
		found, err := held.value(asked, "last_one")
		expect(t, err, nil)
		expect(t, found, wanted)
	}
	for operation, wanted := range map[string]float64{"last_one": 7, "avg": 4, "min": 1, "max": 7, "count": 3, "rate": 0.3} {
		found, err := held.value(query{"load", map[string]string{"pod": "a"}, "sum"}, operation)
		expect(t, err, nil)
		expect(t, found, wanted)
	}
}

func TestSeriesOfOtherDeploymentsDoNotCount(t *testing.T) {
	held := newStore(time.Minute)
	held.put("load", map[string]string{"deployment": "other"}, sample{time.Now(), 5})
	found, _ := held.value(query{"load", map[string]string{"deployment": "chat-predictor"}, "sum"}, "last_one")
	expect(t, found, 0)
	held.put("load", map[string]string{}, sample{time.Now(), 3})
	found, _ = held.value(query{"load", map[string]string{"deployment": "chat-predictor"}, "sum"}, "last_one")
	expect(t, found, 3) // without the label
}

func TestSamplesOfAPodThatIsGoneCountUntilTheRetentionIsOver(t *testing.T) {
	held := newStore(time.Minute)
	held.put("load", labels("gone"), sample{time.Now().Add(-59 * time.Second), 5})
	held.put("load", labels("long-gone"), sample{time.Now().Add(-61 * time.Second), 7})
	found, _ := held.value(query{"load", nil, "sum"}, "last_one")
	expect(t, found, 5)
}

func TestGaugesAndSumsArriveAndKEDAIsAnswered(t *testing.T) {
	held := newStore(time.Minute)
	number := func(value float64, flags uint32) *metrics.NumberDataPoint {
		var attributes []*common.KeyValue
		for name, text := range labels("a") {
			value := &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: text}}
			attributes = append(attributes, &common.KeyValue{Key: name, Value: value})
		}
		now := uint64(time.Now().UnixNano())
		return &metrics.NumberDataPoint{Attributes: attributes, TimeUnixNano: now, Flags: flags,
			Value: &metrics.NumberDataPoint_AsDouble{AsDouble: value}}
	}
	gauge := &metrics.Gauge{DataPoints: []*metrics.NumberDataPoint{number(2.5, 0), number(9, 1)}}
	metric := &metrics.Metric{Name: "vllm:num_requests_running", Data: &metrics.Metric_Gauge{Gauge: gauge}}
	request := &otlp.ExportMetricsServiceRequest{ResourceMetrics: []*metrics.ResourceMetrics{
		{ScopeMetrics: []*metrics.ScopeMetrics{{Metrics: []*metrics.Metric{metric}}}}}}
	_, err := (&metricsReceiver{store: held}).Export(context.Background(), request)
	expect(t, err, nil)

	asked := &scaler{store: held}
	metadata := map[string]string{"metricQuery": running, "targetValue": "2"}
	spec, err := asked.GetMetricSpec(context.Background(), ref(metadata))
	expect(t, err, nil)
	expect(t, spec.MetricSpecs[0].MetricName, "demo-chat-predictor")
	expect(t, spec.MetricSpecs[0].TargetSizeFloat, 2)
	found, err := asked.GetMetrics(context.Background(), &pb.GetMetricsRequest{ScaledObjectRef: ref(metadata)})
	expect(t, err, nil)
	expect(t, found.MetricValues[0].MetricValueFloat, 2.5)
	active, err := asked.IsActive(context.Background(), ref(metadata))
	expect(t, err, nil)
	expect(t, active.Result, true)
	metadata["clampMax"] = "0"
	active, err = asked.IsActive(context.Background(), ref(metadata))
	expect(t, err, nil)
	expect(t, active.Result, false)
}

func TestPeopleAskOverHTTP(t *testing.T) {
	held := newStore(time.Minute)
	held.put("vllm:num_requests_running", labels("a"), sample{time.Now(), 4})
	for body, wanted := range map[string]float64{`{"query": ` + quoted(running) + `}`: 4, `{"query": "sum("}`: 0} {
		recorder := httptest.NewRecorder()
		queries(held).ServeHTTP(recorder, httptest.NewRequest("POST", "/memstore/query", strings.NewReader(body)))
		var answer struct {
			OK    bool
			Value float64
			Error string
		}
		expect(t, json.Unmarshal(recorder.Body.Bytes(), &answer), nil)
		expect(t, answer.Value, wanted)
		expect(t, answer.OK, answer.Error == "")
	}
}

func quoted(text string) string {
	written, _ := json.Marshal(text)
	return string(written)
}
