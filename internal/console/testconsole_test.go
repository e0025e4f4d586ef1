package console

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/metrictable"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/console/access"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// testConsole is a console that runs with exactly its own permissions, and the objects that it shows.
type testConsole struct {
	*testing.T
	client.Client
	namespace, base string
}

func newTestConsole(t *testing.T, change ...func(*Options)) *testConsole {
	t.Helper()
	t.Parallel()
	s := &testConsole{T: t, Client: testplane.Client(t), namespace: testplane.Namespace(t)}
	cert, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	s.must(err)
	folder := t.TempDir()
	options := Default()
	options.Listen, options.CertFile, options.KeyFile = "127.0.0.1:0", filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	options.Registry, options.ReviewLifetime = prometheus.NewRegistry(), 200*time.Millisecond
	options.CheckInterval, options.RefreshInterval = 50*time.Millisecond, 300*time.Millisecond
	for _, c := range change {
		c(&options)
	}
	s.must(os.WriteFile(options.CertFile, cert, 0o600))
	s.must(os.WriteFile(options.KeyFile, key, 0o600))
	var served *server
	testplane.StartManager(t, testplane.User(t, "console-"+s.namespace, roles.Rules(t, "console")), func(_ context.Context, mgr manager.Manager) (err error) {
		served, err = setup(mgr, options)
		return err
	})
	testplane.Eventually(t, func() string {
		if err := served.ready(nil); err != nil {
			return err.Error()
		}
		return ""
	})
	s.base = "https://" + served.address.Load().String()
	return s
}

func (s *testConsole) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// httpClient returns a client that does not store cookies and does not follow redirects.
func httpClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       30 * time.Second,
	}
}

// token creates a user with a role in the given namespaces, or in all for "", and returns a token of the user.
func (s *testConsole) token(name string, namespaces []string, rules ...rbacv1.PolicyRule) string {
	s.Helper()
	config := testplane.AsServiceAccount(s, testplane.Config(s), s.namespace, name, "")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-" + name}, Rules: rules}
	s.must(s.Create(s.Context(), role))
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: name}}
	for _, namespace := range namespaces {
		var binding client.Object = &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: ref, Subjects: subjects}
		if namespace != "" {
			binding = &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: ref, Subjects: subjects}
		}
		s.must(s.Create(s.Context(), binding))
	}
	return config.BearerToken
}

func listRule(group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"list"}}
}

// allRules returns the rules of a user who may list everything.
func allRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{listRule("breakwater.dev", "podprotectors", "cells"), listRule("events.k8s.io", "events")}
}

// createProtector creates a protector with one counted cell.
func (s *testConsole) createProtector(namespace, name string, available, floor int32) *v1alpha1.PodProtector {
	s.Helper()
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.PodProtectorSpec{
		Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": name}}, MinAvailable: v1alpha1.Pods(floor),
	}}
	s.must(s.Create(s.Context(), p))
	s.setAvailable(p, available)
	return p
}

func (s *testConsole) setAvailable(p *v1alpha1.PodProtector, available int32) {
	s.Helper()
	p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "worker-1", Aggregation: v1alpha1.Aggregation{
		TotalReplicas: available, CountedReplicas: available, CountedSpec: quota.CountedSpec(&p.Spec), SnapshotVersion: "1", LastEventTime: metav1.NowMicro(),
	}}}
	quota.Summarize(p)
	s.must(s.Status().Update(s.Context(), p))
}

// createDenial creates a denial event as the webhook does.
func (s *testConsole) createDenial(p *v1alpha1.PodProtector, note string) {
	s.Helper()
	s.must(s.Create(s.Context(), &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, GenerateName: p.Name + "-"}, EventTime: metav1.NowMicro(), Type: corev1.EventTypeWarning,
		Reason: "RemovalRefused", Action: "Refuse", Note: note, ReportingController: "breakwater-webhook", ReportingInstance: "breakwater-webhook-0",
		Regarding: corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodProtector", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
	}))
}

// get sends a GET request, with a bearer token unless that is empty.
func (s *testConsole) get(path, token string, change ...func(*http.Request)) (int, string, http.Header) {
	s.Helper()
	return s.send(http.MethodGet, path, nil, append([]func(*http.Request){func(r *http.Request) {
		r.Header.Set("Accept", "text/html")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
	}}, change...)...)
}

func (s *testConsole) send(method, path string, form url.Values, change ...func(*http.Request)) (int, string, http.Header) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.base+path, strings.NewReader(form.Encode()))
	s.must(err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, c := range change {
		c(r)
	}
	response, err := httpClient().Do(r)
	s.must(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	s.must(err)
	return response.StatusCode, string(body), response.Header
}

// awaitPage waits until a page contains a text.
func (s *testConsole) awaitPage(path, token, text string) string {
	s.Helper()
	var body string
	testplane.Eventually(s, func() string {
		var code int
		if code, body, _ = s.get(path, token); code != http.StatusOK || !strings.Contains(body, text) {
			return fmt.Sprintf("%d without %q:\n%s", code, text, body)
		}
		return ""
	})
	return body
}

// stream reads the events of a page.
type stream struct {
	lines *bufio.Scanner
	body  io.Closer
}

func (s *testConsole) open(path string, change ...func(*http.Request)) (*stream, int) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.base+path, nil)
	s.must(err)
	r.Header.Set("Accept", "text/event-stream")
	for _, c := range change {
		c(r)
	}
	client := httpClient()
	client.Timeout = time.Minute
	response, err := client.Do(r)
	s.must(err)
	s.Cleanup(func() { response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 4<<20)
	return &stream{lines: lines, body: response.Body}, response.StatusCode
}

// next returns the next event of the kind and its data. At the end of the stream it returns the last event and an error.
func (s *stream) next(kind string) (event, data string, err error) {
	for s.lines.Scan() {
		line := s.lines.Text()
		switch {
		case strings.HasPrefix(line, "event: "):
			event, data = strings.TrimPrefix(line, "event: "), ""
		case strings.HasPrefix(line, "data: "):
			data += strings.TrimPrefix(line, "data: ") + "\n"
		case line == "" && event == kind:
			return event, data, nil
		}
	}
	return event, data, errors.Join(io.EOF, s.lines.Err())
}

// awaitSession is like awaitPage, for a signed-in browser.
func (s *testConsole) awaitSession(path, session, text string) string {
	s.Helper()
	var body string
	testplane.Eventually(s, func() string {
		var code int
		if code, body, _ = s.get(path, "", cookie(session)); code != http.StatusOK || !strings.Contains(body, text) {
			return fmt.Sprintf("%d without %q:\n%s", code, text, body)
		}
		return ""
	})
	return body
}

func TestMain(m *testing.M) { testplane.Main(m) }

func TestMetricsMatchTable(t *testing.T) {
	registry := metrictable.NewRecordingRegistry()
	newMetrics(registry, access.NewSessions(time.Hour, time.Hour, 1, time.Now), newStreams(1, 1))
	registry.Check(t, "../../docs/reference/metrics.md", metrictable.Prefix("breakwater_console_"))
}
