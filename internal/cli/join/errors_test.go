package join_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/cli/join"
)

func TestJoinErrorsLeaveNothing(t *testing.T) {
	for claim, test := range map[string]struct {
		prepare func(*fixture)
		change  func(*join.Joiner)
		want    string
	}{
		"the same cluster twice": {
			change: func(j *join.Joiner) { j.Worker = j.Core }, want: "are the same cluster",
		},
		"a worker without the chart": {
			prepare: func(l *fixture) { l.remove(l.worker, &corev1.ServiceAccount{ObjectMeta: l.metadata(l.account())}) },
			want:    "the worker has no ServiceAccount",
		},
		"a core without the chart": {
			prepare: func(l *fixture) {
				l.remove(l.core, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: l.account() + "-cell"}})
			},
			want: "role: core (or single) and access.enabled: true",
		},
		"a Cell that is in another cluster": {
			prepare: func(l *fixture) {
				cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}
				l.create(l.core, cell)
				cell.Status.Cluster = "another"
				if err := l.core.admin.Status().Update(l.Context(), cell); err != nil {
					l.Fatal(err)
				}
			},
			want: "is in another cluster (another)",
		},
		"a Cell that names another Secret": {
			prepare: func(l *fixture) {
				cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}
				cell.Spec.KubeconfigSecretRef = &v1alpha1.KubeconfigSecretRef{Namespace: "a", Name: "b"}
				l.create(l.core, cell)
			},
			want: "is managed by another client",
		},
		"a kubeconfig of another client": {
			prepare: func(l *fixture) {
				l.create(l.worker, &corev1.Secret{ObjectMeta: l.metadata("core-core"), Data: map[string][]byte{"kubeconfig": []byte("theirs")}})
			},
			want: "/core-core in the worker is managed by another client",
		},
		"a ServiceAccount of the core without permissions": {
			prepare: func(l *fixture) { l.revokeCellPermissions() }, want: `may not "list podprotectors.breakwater.dev" in the core`,
		},
		"a ServiceAccount of the worker without permissions": {
			prepare: func(l *fixture) { l.revokePermissions(l.worker) }, want: `may not "list pods" in the worker`,
		},
		"a ServiceAccount of the core without permissions for scheduling policies": {
			change: func(j *join.Joiner) { j.Scheduling = true },
			want:   `may not "list podschedulingpolicies.breakwater.dev" in the core: upgrade the chart breakwater there, with webhook.scheduling.enabled: true`,
		},
		"the address of another cluster": {
			change: func(j *join.Joiner) { j.Worker.Server, j.Worker.CA = j.Core.Config.Host, j.Core.Config.CAData },
			want:   "test the new kubeconfig of the worker",
		},
		"a CA that does not match the address": {
			change: func(j *join.Joiner) { j.Core.CA = j.Worker.Config.CAData }, want: "certificate signed by unknown authority",
		},
		"an unresponsive address": {
			change: func(j *join.Joiner) { j.Core.Server = "https://" + unresponsiveAddress }, want: "test the new kubeconfig of the core for https://" + unresponsiveAddress,
		},
		"an invalid address": {
			change: func(j *join.Joiner) { j.Core.Server = "core.example:6443" }, want: "is not https://HOST[:PORT]",
		},
		"invalid names and times": {
			change: func(j *join.Joiner) { j.Cell, j.Lifetime, j.Only = "A", time.Minute, "up" }, want: "--token-lifetime 1m0s",
		},
		"a kubeconfig without TLS verification": {
			change: func(j *join.Joiner) { j.Core.Config = insecure(j.Core.Config) }, want: "disables TLS verification",
		},
	} {
		t.Run(claim, func(t *testing.T) {
			l := newFixture(t)
			if test.prepare != nil {
				test.prepare(l)
			}
			change := test.change
			if change == nil {
				change = func(*join.Joiner) {}
			}
			l.wantError(test.want, change)
		})
	}
}

func TestSkipCheckAcceptsAnyAddress(t *testing.T) {
	l := newFixture(t)
	out := l.join(func(j *join.Joiner) { j.SkipCheck, j.Core.Server = true, "https://core.example:6443" })
	if !strings.Contains(out, "has a kubeconfig for https://core.example:6443") || strings.Contains(out, "--core-server") {
		t.Errorf("output is\n%s", out)
	}
}

func TestInterruptedGraceReportsPreviousTokens(t *testing.T) {
	l := newFixture(t)
	l.join()
	ctx, cancel := context.WithCancel(t.Context())
	j, out := l.joiner(func(j *join.Joiner) { j.Grace = time.Hour })
	j.Out = cancelingWriter{cancel}
	if err := j.Run(ctx); err == nil || !strings.Contains(err.Error(), "the previous ones were not revoked") || strings.Count(out.String(), "keeps a previous token valid") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
	if len(l.tokens(l.core)) != 2 {
		t.Errorf("tokens %v, want two", l.tokens(l.core))
	}
	l.wantUser("the new one", l.coreKubeconfig(), l.ownAccount())
}

// cancelingWriter cancels the context when join starts to wait for the grace period.
type cancelingWriter struct{ stop func() }

func (s cancelingWriter) Write(p []byte) (int, error) {
	if strings.HasPrefix(string(p), "Previous tokens:") {
		s.stop()
	}
	return len(p), nil
}

// unresponsiveAddress is an address without a listener: unprivileged processes cannot listen on so low a port.
var unresponsiveAddress = net.JoinHostPort("127.0.0.1", "1")

func (l *fixture) metadata(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: l.namespace, Name: name}
}

func (l *fixture) remove(p testCluster, object client.Object) {
	l.Helper()
	if err := p.admin.Delete(l.Context(), object); err != nil {
		l.Fatal(err)
	}
}

// revokePermissions removes the permissions of the other cluster's components.
func (l *fixture) revokePermissions(p testCluster) {
	l.Helper()
	l.remove(p, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: l.namespace + "-" + l.account()}})
}

// revokeCellPermissions removes all permissions from the ClusterRole of the accounts of cells.
func (l *fixture) revokeCellPermissions() {
	l.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: l.account() + "-cell"}}
	if err := l.core.admin.Update(l.Context(), role); err != nil {
		l.Fatal(err)
	}
}

// insecure returns a configuration like that of a kubeconfig with insecure-skip-tls-verify.
func insecure(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Insecure, config.CAData, config.CAFile = true, nil, ""
	return config
}
