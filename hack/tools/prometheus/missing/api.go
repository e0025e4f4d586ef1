// Package api stands in for the client of Nomad, which no module proxy serves. Prometheus is built here without the discovery that
// asks for it.
package api
