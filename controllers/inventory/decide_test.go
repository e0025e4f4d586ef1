package inventory

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

func TestDecide(t *testing.T) {
	entryOf := func(source, kubeconfig string) entry { return entry{source: source, kubeconfig: []byte(kubeconfig)} }
	a, b := entryOf("Secret/argocd/a", "new"), entryOf("ClusterProfile/fleet/a", "other")
	unusable := entry{source: a.source, err: errors.New("it has no server")}
	cell := func(change func(*v1alpha1.Cell)) *v1alpha1.Cell {
		c := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{
			Name: "a", Labels: map[string]string{managedBy: Name}, Annotations: map[string]string{v1alpha1.AnnotationInventoryEntry: a.source},
		}}
		change(c)
		return c
	}
	bound := cell(func(*v1alpha1.Cell) {})
	secret := func(manager, kubeconfig string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{managedBy: manager}}, Data: map[string][]byte{kubeconfigKey: []byte(kubeconfig)}}
	}
	for claim, c := range map[string]struct {
		observed
		create, kubeconfig, listed string
		// rejected are the reasons, in the order of the entries.
		rejected string
	}{
		"does nothing without an entry and a Cell":                 {},
		"creates the Cell of a new entry":                          {observed: observed{entries: []entry{a}}, create: a.source},
		"creates no Cell of an unusable entry":                     {observed: observed{entries: []entry{unusable}}, rejected: "EntryUnusable"},
		"creates no Cell when two entries have its name":           {observed: observed{entries: []entry{a, b}}, rejected: "EntryConflict EntryConflict"},
		"creates no Cell when one of two entries is unusable":      {observed: observed{entries: []entry{unusable, b}}, rejected: "EntryConflict EntryConflict"},
		"creates no Cell with an invalid name":                     {observed: observed{name: "prod/eu", entries: []entry{a}}, rejected: "EntryNameInvalid"},
		"creates no Cell without a name":                           {observed: observed{name: "-", entries: []entry{a}}, rejected: "EntryNameInvalid"},
		"does not create a Cell again that a user deleted":         {observed: observed{entries: []entry{a}, secret: secret(Name, "new")}, rejected: "CellDeleted"},
		"does not use the Secret of another client for a new Cell": {observed: observed{entries: []entry{a}, secret: secret("breakwater-join", "old")}, rejected: "ManagedElsewhere"},
		"does not take over the Cell of another client": {
			observed: observed{entries: []entry{a}, cell: cell(func(c *v1alpha1.Cell) { c.Labels = map[string]string{managedBy: "Helm"} })}, rejected: "ManagedElsewhere",
		},
		"does not take over a Cell without labels":      {observed: observed{entries: []entry{a}, cell: cell(func(c *v1alpha1.Cell) { c.Labels = nil })}, rejected: "ManagedElsewhere"},
		"ignores the Cell of another client":            {observed: observed{cell: cell(func(c *v1alpha1.Cell) { c.Labels = nil })}},
		"writes the first kubeconfig":                   {observed: observed{entries: []entry{a}, cell: bound}, kubeconfig: "new", listed: "EntryFound"},
		"writes a changed kubeconfig":                   {observed: observed{entries: []entry{a}, cell: bound, secret: secret(Name, "old")}, kubeconfig: "new", listed: "EntryFound"},
		"does not write an unchanged kubeconfig":        {observed: observed{entries: []entry{a}, cell: bound, secret: secret(Name, "new")}, listed: "EntryFound"},
		"does not write the Secret of another client":   {observed: observed{entries: []entry{a}, cell: bound, secret: secret("sops", "old")}, listed: "ManagedElsewhere"},
		"keeps a Cell whose entry is missing":           {observed: observed{cell: bound, secret: secret(Name, "old")}, listed: "EntryMissing"},
		"keeps the kubeconfig of a now unusable entry":  {observed: observed{entries: []entry{unusable}, cell: bound, secret: secret(Name, "old")}, listed: "EntryUnusable"},
		"binds no Cell to another entry":                {observed: observed{entries: []entry{b}, cell: bound, secret: secret(Name, "old")}, listed: "EntryMissing", rejected: "EntryConflict"},
		"follows the first of two entries, and says so": {observed: observed{entries: []entry{b, a}, cell: bound, secret: secret(Name, "old")}, kubeconfig: "new", listed: "EntryConflict", rejected: "EntryConflict"},
		"follows the entry that a user chose": {
			observed:   observed{entries: []entry{b}, secret: secret(Name, "new"), cell: cell(func(c *v1alpha1.Cell) { c.Annotations[v1alpha1.AnnotationInventoryEntry] = b.source })},
			kubeconfig: "other", listed: "EntryFound",
		},
		"does nothing to a Cell that is being deleted": {
			observed: observed{entries: []entry{a}, cell: cell(func(c *v1alpha1.Cell) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			if c.name == "" {
				c.name = "a"
			}
			c.secretName = "breakwater-system/cell-a"
			d := decide(c.observed)
			var create, listed string
			var rejected []string
			if d.create != nil {
				create = d.create.source
			}
			if d.listed != nil {
				listed = d.listed.Reason
				if wantTrue := listed == "EntryFound"; wantTrue != (d.listed.Status == metav1.ConditionTrue) {
					t.Errorf("condition Listed is %s with reason %s", d.listed.Status, listed)
				}
			}
			for _, r := range d.rejections {
				rejected = append(rejected, r.reason)
			}
			if got := strings.Join(rejected, " "); create != c.create || string(d.kubeconfig) != c.kubeconfig || listed != c.listed || got != c.rejected {
				t.Errorf("decide() = create %q, kubeconfig %q, Listed %q, rejected %q; want create %q, kubeconfig %q, Listed %q, rejected %q",
					create, d.kubeconfig, listed, got, c.create, c.kubeconfig, c.listed, c.rejected)
			}
		})
	}
}

// Each translated kubeconfig is one that a Cell can use.
func TestArgoCDKubeconfig(t *testing.T) {
	const server = "https://worker.example:6443"
	for claim, c := range map[string]struct{ server, config, want, problem string }{
		"translates a token":                {server, `{"bearerToken":"t0","tlsClientConfig":{"caData":"Q0E=","serverName":"api"}}`, "token: t0", ""},
		"keeps the CA":                      {server, `{"bearerToken":"t0","tlsClientConfig":{"caData":"Q0E="}}`, "certificate-authority-data: Q0E=", ""},
		"keeps the server name":             {server, `{"bearerToken":"t0","tlsClientConfig":{"serverName":"api"}}`, "tls-server-name: api", ""},
		"translates a client certificate":   {server, `{"tlsClientConfig":{"certData":"Q0VSVA==","keyData":"S0VZ"}}`, "client-key-data: S0VZ", ""},
		"shows that a server is unverified": {server, `{"bearerToken":"t0","tlsClientConfig":{"insecure":true}}`, "insecure-skip-tls-verify: true", ""},
		"shows a proxy":                     {server, `{"bearerToken":"t0","proxyUrl":"http://proxy:3128"}`, "proxy-url: http://proxy:3128", ""},
		"rejects a program":                 {server, `{"execProviderConfig":{"command":"argocd-k8s-auth","args":["gcp"]}}`, "", "a program"},
		"rejects a program beside a token":  {server, `{"bearerToken":"t0","execProviderConfig":{"command":"aws"}}`, "", "a program"},
		"rejects AWS":                       {server, `{"awsAuthConfig":{"clusterName":"prod"}}`, "", "a program"},
		"rejects a password":                {server, `{"username":"u","password":"p"}`, "", "only a password"},
		"rejects a certificate without key": {server, `{"tlsClientConfig":{"certData":"Q0VSVA=="}}`, "", "no client certificate"},
		"rejects Argo CD's own cluster":     {"https://kubernetes.default.svc", `{"tlsClientConfig":{"insecure":false}}`, "", "no bearerToken"},
		"rejects an entry without a server": {"", `{"bearerToken":"t0"}`, "", "no server"},
		"does not quote a broken config":    {server, `{"bearerToken":"t0`, "", "its config is not valid JSON"},
		"rejects an entry without a config": {server, ``, "", "not valid JSON"},
	} {
		t.Run(claim, func(t *testing.T) {
			got, err := argoCDKubeconfig("a", map[string][]byte{"server": []byte(c.server), "config": []byte(c.config)})
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) || strings.Contains(err.Error(), "t0") {
					t.Errorf("argoCDKubeconfig() = %v, want an error with %q and no credentials", err, c.problem)
				}
				return
			}
			if err == nil {
				err = clusters.ValidateKubeconfig(got)
			}
			if err != nil || !strings.Contains(string(got), c.want) || !strings.Contains(string(got), "server: "+c.server) {
				t.Errorf("argoCDKubeconfig() = %s, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestClusterProfileKubeconfig(t *testing.T) {
	secret := func(name, key string) corev1.Secret {
		return corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{key: []byte("k")}}
	}
	for claim, c := range map[string]struct {
		secrets []corev1.Secret
		problem string
	}{
		"uses the one Secret":               {[]corev1.Secret{secret("a", keyConfig)}, ""},
		"needs a Secret":                    {nil, "has 0 Secrets with the labels"},
		"does not choose among two Secrets": {[]corev1.Secret{secret("a", keyConfig), secret("b", keyConfig)}, "(a, b)"},
		"needs the key":                     {[]corev1.Secret{secret("a", "value")}, "no kubeconfig under the key Config"},
	} {
		got, err := clusterProfileKubeconfig("prod", c.secrets)
		if (err == nil) != (c.problem == "") || err == nil && string(got) != "k" || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: clusterProfileKubeconfig() = %q, %v; want an error with %q", claim, got, err, c.problem)
		}
	}
}
