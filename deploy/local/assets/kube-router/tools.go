//go:build tools

// Package tools names the program that is built here, so that go.mod and go.sum pin all it needs.
package tools

import (
	_ "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router"
)
