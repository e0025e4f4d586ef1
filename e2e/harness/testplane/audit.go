package testplane

import (
	"os"
	"path/filepath"
	"testing"
)

// removals is a policy by which removals of pods alone are in the audit log.
const removals = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [delete, deletecollection]
  resources: [{group: "", resources: [pods]}]
- level: Metadata
  verbs: [create]
  resources: [{group: "", resources: [pods/eviction]}]
- level: None
`

// AuditLog is the file in which the control plane that all tests share tells of removals of pods, one event of audit.k8s.io in a line.
func AuditLog(t testing.TB) string {
	t.Helper()
	first.cluster(t)
	return first.auditLog()
}

func (p *plane) auditLog() string { return filepath.Join(p.dir, "audit.log") }

// audit are the arguments by which an apiserver writes it.
func (p *plane) audit() (arguments []string, err error) {
	if p.dir, err = os.MkdirTemp("", "breakwater-audit-"); err != nil {
		return nil, err
	}
	policy := filepath.Join(p.dir, "policy.yaml")
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + p.auditLog(), "--audit-log-mode=blocking-strict"},
		os.WriteFile(policy, []byte(removals), 0o600)
}
