//go:build tools

// The operator is built from here, too: named, so that go.mod and go.sum pin all it needs.
package main

import (
	_ "github.com/kedacore/keda/v2/cmd/operator"
)
