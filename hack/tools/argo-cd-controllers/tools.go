//go:build tools

// Package tools pins the controllers of Argo CD, in the newest version whose modules a module proxy serves: later ones replace their engine by
// a folder of their repository. The program in the folder beside runs them.
package tools

import _ "github.com/breakwater-k8s/breakwater/hack/tools/argo-cd-controllers/argocd"
