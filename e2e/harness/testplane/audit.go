package testplane

import (
	"os"
	"path/filepath"
	"testing"
)

// removals is an audit policy that logs only removals of pods.
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

// AuditLog returns the path of the audit log of the shared control plane. It has removals of pods, one audit.k8s.io event per
// line.
func AuditLog(t testing.TB) string {
	t.Helper()
	first.cluster(t)
	return first.auditLog()
}

func (p *plane) auditLog() string { return filepath.Join(p.dir, "audit.log") }

// audit returns the API server's arguments for the audit log.
func (p *plane) audit() (arguments []string, err error) {
	if p.dir, err = os.MkdirTemp("", "breakwater-audit-"); err != nil {
		return nil, err
	}
	policy := filepath.Join(p.dir, "policy.yaml")
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + p.auditLog(), "--audit-log-mode=blocking-strict"},
		os.WriteFile(policy, []byte(removals), 0o600)
}
