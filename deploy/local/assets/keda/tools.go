//go:build tools

// The operator and the metrics adapter are built from here, too: named, so that go.mod and go.sum pin all they need.
package main

import (
	_ "github.com/kedacore/keda/v2/cmd/adapter"
	_ "github.com/kedacore/keda/v2/cmd/operator"
)
