//go:build tools

// Package tools names the module whose definitions are used, so that go.mod and go.sum pin it.
package tools

import (
	_ "sigs.k8s.io/gateway-api/apis/v1"
)
