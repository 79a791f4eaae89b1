//go:build tools

// Package tools names one package of the module, so that go.sum pins it.
package tools

import (
	_ "github.com/go-acme/lego/v5/challenge"
)
