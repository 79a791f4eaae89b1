//go:build tools

// Package tools imports the operator so that go.mod and go.sum pin its dependencies.
package tools

import _ "github.com/open-telemetry/opentelemetry-operator"
