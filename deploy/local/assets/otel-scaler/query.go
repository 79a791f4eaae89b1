package main

import (
	"fmt"
	"strings"
)

// query is a parsed `metricQuery`: which series it selects, and how they are aggregated.
type query struct {
	metric    string
	labels    map[string]string
	aggregate string
}

const defaultAggregate = "sum"

var aggregates = map[string]func(values []float64) float64{
	"sum":   sum,
	"avg":   func(values []float64) float64 { return sum(values) / float64(len(values)) },
	"min":   func(values []float64) float64 { return extreme(values, func(a, b float64) bool { return a < b }) },
	"max":   func(values []float64) float64 { return extreme(values, func(a, b float64) bool { return a > b }) },
	"count": func(values []float64) float64 { return float64(len(values)) },
}

// parse reads `metric`, `metric{name="value", ...}` and both inside of an aggregate, such as `sum(...)`.
func parse(text string) (query, error) {
	wrong := func(why string) (query, error) {
		return query{}, fmt.Errorf("metricQuery %q not understood: %s; write it as sum(metric{name=\"value\"})", text, why)
	}
	rest := strings.TrimSpace(text)
	found := query{labels: map[string]string{}, aggregate: defaultAggregate}
	for name := range aggregates {
		if inner, ok := strings.CutPrefix(rest, name+"("); ok && strings.HasSuffix(inner, ")") {
			found.aggregate, rest = name, strings.TrimSpace(strings.TrimSuffix(inner, ")"))
			break
		}
	}
	metric, labels, has := strings.Cut(rest, "{")
	found.metric = escaped(strings.TrimSpace(metric))
	if found.metric == "" || strings.ContainsAny(found.metric, "(){}") {
		return wrong("it names no metric")
	}
	if !has {
		return found, nil
	}
	labels, ok := strings.CutSuffix(labels, "}")
	if !ok {
		return wrong("the labels have no end")
	}
	for _, pair := range strings.Split(labels, ",") {
		name, value, ok := strings.Cut(pair, "=")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.Contains(value, "=") {
			return wrong("a label is no name=value")
		}
		found.labels[name] = strings.Trim(strings.TrimSpace(value), `"'`)
	}
	return found, nil
}

// escaped returns the metric name as queries write it: like the original, with `_` for `/`.
func escaped(name string) string {
	return strings.ReplaceAll(name, "/", "_")
}

func sum(values []float64) (total float64) {
	for _, one := range values {
		total += one
	}
	return total
}

func extreme(values []float64, beats func(a, b float64) bool) float64 {
	best := values[0]
	for _, one := range values[1:] {
		if beats(one, best) {
			best = one
		}
	}
	return best
}
