package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const defaultOperation = "last_one"

// operations aggregate the samples of one series over time; there is at least one sample.
var operations = map[string]func(samples []sample) float64{
	defaultOperation: func(samples []sample) float64 { return samples[len(samples)-1].value },
	"avg":            func(samples []sample) float64 { return aggregates["avg"](values(samples)) },
	"min":            func(samples []sample) float64 { return aggregates["min"](values(samples)) },
	"max":            func(samples []sample) float64 { return aggregates["max"](values(samples)) },
	"count":          func(samples []sample) float64 { return float64(len(samples)) },
	"rate":           rate,
}

type sample struct {
	at    time.Time
	value float64
}

type series struct {
	labels  map[string]string
	samples []sample
}

// store keeps the samples of each series for the retention period.
type store struct {
	retention time.Duration
	mutex     sync.Mutex
	metrics   map[string]map[string]*series
}

func newStore(retention time.Duration) *store {
	return &store{retention: retention, metrics: map[string]map[string]*series{}}
}

func (s *store) put(metric string, labels map[string]string, added sample) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	named := s.metrics[escaped(metric)]
	if named == nil {
		named = map[string]*series{}
		s.metrics[escaped(metric)] = named
	}
	key := keyOf(labels)
	held := named[key]
	if held == nil {
		held = &series{labels: labels}
		named[key] = held
	}
	held.samples = append(s.fresh(held.samples, time.Now()), added)
}

// value evaluates a query; without a matching series it is 0, the default of the original.
//
// As in the original, a series matches if it lacks a label that the query names.
func (s *store) value(asked query, operation string) (float64, error) {
	over, known := operations[operation]
	if !known {
		return 0, fmt.Errorf("operationOverTime %q unknown; choose from last_one, avg, min, max, count, rate", operation)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var found []float64
	for _, one := range s.metrics[asked.metric] {
		if samples := s.fresh(one.samples, time.Now()); len(samples) > 0 && one.matches(asked.labels) {
			found = append(found, over(samples))
		}
	}
	if len(found) == 0 {
		return 0, nil
	}
	return aggregates[asked.aggregate](found), nil
}

// data returns all samples by metric and series.
func (s *store) data() map[string]map[string][]float64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	shown := map[string]map[string][]float64{}
	for metric, named := range s.metrics {
		shown[metric] = map[string][]float64{}
		for key, one := range named {
			shown[metric][key] = values(s.fresh(one.samples, time.Now()))
		}
	}
	return shown
}

func (s *store) fresh(samples []sample, now time.Time) []sample {
	first := slices.IndexFunc(samples, func(one sample) bool { return now.Sub(one.at) <= s.retention })
	if first < 0 {
		return nil
	}
	return samples[first:]
}

func (s *series) matches(wanted map[string]string) bool {
	for name, value := range wanted {
		if own, has := s.labels[name]; has && own != value {
			return false
		}
	}
	return true
}

func keyOf(labels map[string]string) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, fmt.Sprintf("%s=%q", name, labels[name]))
	}
	return strings.Join(pairs, ", ")
}

func values(samples []sample) []float64 {
	found := make([]float64, len(samples))
	for at, one := range samples {
		found[at] = one.value
	}
	return found
}

// rate is the increase per second over the kept samples.
func rate(samples []sample) float64 {
	first, last := samples[0], samples[len(samples)-1]
	seconds := last.at.Sub(first.at).Seconds()
	if seconds == 0 {
		return 0
	}
	return (last.value - first.value) / seconds
}
