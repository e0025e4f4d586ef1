package podhold_test

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

func TestRejectionOf(t *testing.T) {
	machine := podhold.Machine{System: "a", OS: "1"}
	for claim, tc := range map[string]struct {
		node         string
		stored, here podhold.Machine
		want         podhold.Rejection
	}{
		"uses the pods of its node":                             {"n", machine, machine, ""},
		"not those of another node":                             {"other", machine, machine, podhold.OtherNode},
		"not those of a pod without a node":                     {"", machine, machine, podhold.OtherNode},
		"not those of another machine that has its name":        {"n", machine, podhold.Machine{System: "b", OS: "1"}, podhold.OtherMachine},
		"an operating system with another ID is on its machine": {"n", machine, podhold.Machine{System: "a", OS: "2"}, ""},
		"the operating system decides without a system":         {"n", podhold.Machine{OS: "1"}, podhold.Machine{System: "a", OS: "2"}, podhold.OtherMachine},
		"an unknown machine may be its own":                     {"n", podhold.Machine{}, machine, ""},
		"its machine may have become unknown":                   {"n", machine, podhold.Machine{}, ""},
	} {
		p := running("a")
		p.Node = tc.node
		if got := podhold.RejectionOf(p, "n", tc.stored, tc.here); got != tc.want {
			t.Errorf("%s: RejectionOf() = %q, want %q", claim, got, tc.want)
		}
	}
}
