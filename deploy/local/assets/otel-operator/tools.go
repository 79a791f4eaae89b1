//go:build tools

// The operator is built from here: named, so that go.mod and go.sum pin all it needs.
package tools

import _ "github.com/open-telemetry/opentelemetry-operator"
