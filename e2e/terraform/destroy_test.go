package terraform_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
)

const floors = `
variable "protection" { default = true }
variable "confirm" { default = null }

provider "breakwater" {
  config_path = %q
}

resource "breakwater_pod_protector" "many" {
  count               = %d
  namespace           = %q
  name                = "web-${count.index}"
  selector            = { match_labels = { app = "web-${count.index}" } }
  min_available       = "3"
  deletion_protection = var.protection
  annotations         = var.confirm == null ? null : { "breakwater.dev/confirm-release" = var.confirm }
  timeouts {
    delete = %q
  }
}
`

// applyManyProtectors applies protectors, and waits until each has the generator's finalizer, so that the release brake decides on its
// deletion. The brake releases 5 protectors in a window of 10 minutes without a confirmation.
func applyManyProtectors(l *e2e.Fixture, program string, count int, timeout string, variables ...string) *stack {
	l.Helper()
	s := &stack{Fixture: l, Dir: terraform.New(l.TB, program, fmt.Sprintf(floors, l.Federation().Cores()[0].Kubeconfig(), count, l.Namespace, timeout))}
	l.Cleanup(func() {
		_, _ = s.Try("apply", "-auto-approve", "-var=protection=false")
		_, _ = s.Try("destroy", "-auto-approve", "-var=protection=false")
	})
	s.Run(append([]string{"apply", "-auto-approve"}, variables...)...)
	s.waitForProtectors(count, func(p *v1alpha1.PodProtector) bool { return slices.Contains(p.Finalizers, v1alpha1.FinalizerHold) })
	return s
}

func (s *stack) getProtectors() []v1alpha1.PodProtector {
	s.Fixture.Helper()
	list := &v1alpha1.PodProtectorList{}
	s.Must(s.Core.List(s.Fixture.Context(), list, client.InNamespace(s.Namespace)))
	return list.Items
}

// waitForProtectors waits until the condition holds for the given number of protectors.
func (s *stack) waitForProtectors(want int, condition func(*v1alpha1.PodProtector) bool) {
	s.Fixture.Helper()
	s.Eventually(func() string {
		got := 0
		for _, p := range s.getProtectors() {
			if condition(&p) {
				got++
			}
		}
		if got != want {
			return fmt.Sprintf("%d protectors have the wanted state, want %d", got, want)
		}
		return ""
	})
}

func TestDestroyIncludesConfirmation(t *testing.T) {
	for _, program := range []string{terraform.Terraform, terraform.OpenTofu} {
		t.Run(program, func(t *testing.T) {
			suite.Claim(t, "a destroy of many protectors is rejected under deletion_protection, and passes the release brake at once without it", func(l *e2e.Fixture) {
				s := applyManyProtectors(l, program, 60, "1m")
				out, err := s.Try("destroy", "-auto-approve")
				if err == nil || !strings.Contains(out, "is protected from deletion") {
					l.Fatalf("a destroy of protected protectors ended with %v, want an error:\n%s", err, out)
				}
				s.waitForProtectors(60, func(p *v1alpha1.PodProtector) bool { return p.DeletionTimestamp == nil && len(p.Annotations) == 0 })

				s.Run("apply", "-auto-approve", "-var=protection=false")
				s.Run("destroy", "-auto-approve", "-var=protection=false")
				if left := s.getProtectors(); len(left) > 0 {
					l.Errorf("remaining: %d protectors", len(left))
				}
			})
		})
	}
}

func TestUnconfirmedDestroyReportsMissingConfirmation(t *testing.T) {
	suite.Claim(t, "a destroy that the release brake holds names the condition, and succeeds when it is confirmed", func(l *e2e.Fixture) {
		past := []string{"-var=protection=false", "-var=confirm=2020-01-01"}
		s := applyManyProtectors(l, terraform.Terraform, 10, "15s", past...)
		out, err := s.Try(append([]string{"destroy", "-auto-approve"}, past...)...)
		for _, text := range []string{
			`condition DecreasePending, reason LimitExceeded\): PodProtector web-\d+ was deleted, which would release the floor of 3\.`,
			`The configuration sets the annotation breakwater\.dev/confirm-release to "2020-01-01"`,
		} {
			if anyLines := strings.ReplaceAll(text, " ", `[\s│]+`); err == nil || !regexp.MustCompile(anyLines).MatchString(out) {
				l.Fatalf("the destroy ended with %v, want an error that says %q:\n%s", err, text, out)
			}
		}
		s.waitForProtectors(10, func(p *v1alpha1.PodProtector) bool { return p.DeletionTimestamp != nil })

		s.Run("apply", "-auto-approve", "-var=protection=false")
		s.Run("destroy", "-auto-approve", "-var=protection=false")
		if left := s.getProtectors(); len(left) > 0 {
			l.Errorf("remaining: %d protectors", len(left))
		}
	})
}
