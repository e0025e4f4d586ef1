//go:build tools

// Package tools pins the controller of Flux that fetches from Git. It has a module of its own: what it needs and what the
// kustomize-controller needs do not go together.
package tools

import _ "github.com/fluxcd/source-controller"
