// Package ext stands in for a nested module that Traefik's own archive lacks.
package ext

// HTTP extends the HTTP configuration.
type HTTP struct{}

// Router extends a router.
type Router struct{}
