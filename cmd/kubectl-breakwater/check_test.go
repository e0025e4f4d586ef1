package main

import (
	"testing"

	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestCheckBeforeInstallation(t *testing.T) {
	path := writeContexts(t, "here", map[string]*rest.Config{"here": testplane.Config(t), "frozen": {Host: newFrozenServer(t).URL}})
	for claim, c := range map[string]struct {
		arguments []string
		out, errs []string
	}{
		"an administrator may install": {[]string{"--pre"}, []string{
			"API server ok", "clock ok", "version ok", "permissions ok",
			"cert-manager missing it is not installed: the charts make their own certificates",
		}, nil},
		"another user may not": {[]string{"--pre", "--as", "eve"}, []string{
			"permissions FAILED you may not create customresourcedefinitions, clusterroles,", "API server ok",
		}, []string{`failed checks of context "here": 1`}},
		"an API server that does not answer": {[]string{"--pre", "--context", "frozen", "--request-timeout", "300ms"}, []string{
			"API server FAILED http://127.0.0.1", "does not answer",
		}, []string{`failed checks of context "frozen": 1`}},
		"only before an installation": {nil, nil, []string{"after it, use kubectl breakwater doctor"}},
	} {
		t.Run(claim, func(t *testing.T) {
			out, _, err := runPlugin(t, "", append([]string{"check", "--kubeconfig", path}, c.arguments...)...)
			wantErrors(t, err, c.errs)
			wantWords(t, out, c.out...)
		})
	}
}
