package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// runPlugin runs kubectl breakwater as a user would, and returns its output.
func runPlugin(t *testing.T, in string, arguments ...string) (out, errOut string, err error) {
	t.Helper()
	streams, stdin, stdout, stderr := genericiooptions.NewTestIOStreams()
	stdin.WriteString(in)
	root := rootCommand(streams)
	root.SetArgs(arguments)
	err = root.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// hub is a core cluster with a Cell, and the flags for it.
type hub struct {
	*testing.T
	client.Client
	namespace string
	flags     []string
	cell      string
}

func newHub(t *testing.T) *hub {
	t.Helper()
	c, err := client.New(testplane.Config(t), client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	h := &hub{T: t, Client: c, namespace: testplane.Namespace(t)}
	h.cell = h.namespace // unique name
	createCell(t, c, h.cell, nil)
	h.setHeartbeat(time.Second)
	h.flags = []string{"--kubeconfig", writeContexts(t, "hub", map[string]*rest.Config{"hub": testplane.Config(t)}), "-n", h.namespace}
	return h
}

func (h *hub) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// setHeartbeat sets the heartbeat of the cell to the given time ago.
func (h *hub) setHeartbeat(ago time.Duration) {
	h.Helper()
	cell := &v1alpha1.Cell{}
	h.must(h.Get(h.Context(), objectKey("", h.cell), cell))
	at := metav1.NewMicroTime(time.Now().Add(-ago))
	cell.Status.Aggregator = v1alpha1.CellAggregator{Holder: "agg-0", Epoch: 7, LastHeartbeat: &at}
	cell.Status.Pods, cell.Status.Protectors = 12, 3
	h.must(h.Status().Update(h.Context(), cell))
}

// protect creates a protector whose pods the cell has counted.
func (h *hub) protect(name string, floor, available int32, change func(*v1alpha1.PodProtector)) {
	h.Helper()
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name}}
	p.Spec.Selector, p.Spec.MinAvailable = &v1alpha1.PodSelector{}, v1alpha1.Pods(floor)
	h.must(h.Create(h.Context(), p))
	p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: h.cell, Aggregation: v1alpha1.Aggregation{
		TotalReplicas: available + 1, CountedReplicas: available, CountedSpec: quota.CountedSpec(&p.Spec), LastEventTime: metav1.NowMicro(), Epoch: 7, Holder: "agg-0",
	}}}
	p.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Aggregated", LastTransitionTime: metav1.Now()}}
	if change != nil {
		change(p)
	}
	h.must(h.Status().Update(h.Context(), p))
}

func withReservations(pods int) func(*v1alpha1.PodProtector) {
	return func(p *v1alpha1.PodProtector) {
		for i := range pods {
			p.Status.Cells[0].AdmissionHistory.Buckets = append(p.Status.Cells[0].AdmissionHistory.Buckets, v1alpha1.Bucket{
				StartTime: metav1.NewMicroTime(time.Now().Add(-time.Duration(i) * time.Second)), Counter: 1, PodUID: types.UID(fmt.Sprint("uid-", i)), PodName: fmt.Sprint("web-", i), Operation: v1alpha1.OperationEvict,
			})
		}
	}
}

func (h *hub) createDenial(protector, pod, user string, more int, ago time.Duration) {
	h.Helper()
	message := fmt.Sprintf(`Breakwater refuses to remove pod %q: PodProtector %s/%s in core cluster "hub" would have fewer pods available than its floor (floor 5, available 5, removals under way 0); try again when more pods are available, or lower the floor where it is declared.`, pod, h.namespace, protector)
	h.must(h.Create(h.Context(), &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, GenerateName: protector + "-"}, EventTime: metav1.NewMicroTime(time.Now().Add(-ago)),
		Reason: denial.ReasonRefused, Action: "Refuse", Type: corev1.EventTypeWarning, Note: denial.Note(message, user, h.cell, "NoBudget", more),
		ReportingController: "breakwater-webhook", ReportingInstance: "breakwater-webhook-0",
		Regarding: corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodProtector", Namespace: h.namespace, Name: protector},
	}))
}

// createUnattributedDenial creates a denial event for an unknown cell.
func (h *hub) createUnattributedDenial(cell, pod string, more int) {
	h.Helper()
	h.must(h.Create(h.Context(), &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: cell + "-"}, EventTime: metav1.NowMicro(),
		Reason: denial.ReasonRefused, Action: "Refuse", Type: corev1.EventTypeWarning, Note: denial.Note("Breakwater does not know that cell.", "carol", cell, "UnknownCell", more),
		ReportingController: "breakwater-webhook", ReportingInstance: "breakwater-webhook-0",
		Regarding: corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Cell", Name: cell},
		Related:   &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: h.namespace, Name: pod},
	}))
}

// mustRun runs a command against the hub, which must succeed.
func (h *hub) mustRun(arguments ...string) string {
	h.Helper()
	out, errOut, err := runPlugin(h.T, "", append(arguments, h.flags...)...)
	if err != nil {
		h.Fatalf("%v: %v\n%s%s", arguments, err, out, errOut)
	}
	if testing.Verbose() {
		h.Logf("kubectl breakwater %s\n%s%s", strings.Join(arguments, " "), errOut, out)
	}
	return out + errOut
}

func wantWords(t *testing.T, text string, words ...string) {
	t.Helper()
	flat := regexp.MustCompile(` --kubeconfig \S+`).ReplaceAllString(strings.Join(strings.Fields(text), " "), "") // of printed commands
	for _, word := range words {
		if !strings.Contains(flat, word) {
			t.Errorf("output does not contain %q:\n%s", word, text)
		}
	}
}

func wantNoWords(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if strings.Contains(text, word) {
			t.Errorf("output contains %q:\n%s", word, text)
		}
	}
}

func TestStatusOfANamespace(t *testing.T) {
	h := newHub(t)
	wantWords(t, h.mustRun("status"), "No PodProtectors in namespace "+h.namespace, "status -A")
	h.protect("fine", 5, 9, nil)
	h.protect("full", 5, 5, nil)
	h.protect("hurt", 5, 3, nil)
	h.protect("busy", 5, 9, withReservations(4))
	wantWords(t, h.mustRun("status"), "NAME FLOOR AVAILABLE UNDER WAY ALLOWED STATE",
		"busy 5 9 4 0 at floor", "fine 5 9 0 4 ok", "full 5 5 0 0 at floor", "hurt 5 3 0 0 2 below floor")
	wantNoWords(t, h.mustRun("status", "--refusing"), "fine")
	wantWords(t, h.mustRun("status", "-o", "wide"), "FLOOR FROM", "minAvailable 5")
	wantWords(t, h.mustRun("status", "-A"), "NAMESPACE NAME", h.namespace+" fine")
	h.setHeartbeat(10 * time.Minute)
	wantWords(t, h.mustRun("status"), "ok; stale: "+h.cell)
	var list struct{ Protectors []status.Protector }
	h.must(json.Unmarshal([]byte(h.mustRun("status", "-o", "json")), &list))
	if len(list.Protectors) != 4 || list.Protectors[0].Name != "busy" || list.Protectors[0].Denies != "NoBudget" || !list.Protectors[0].Cells[0].Stale {
		t.Errorf("%+v", list)
	}
	var again struct{ Protectors []status.Protector }
	h.must(yaml.UnmarshalStrict([]byte(h.mustRun("status", "-o", "yaml", "fine")), &again))
	if len(again.Protectors) != 1 || again.Protectors[0].Allowed != 4 {
		t.Errorf("%+v", again)
	}
}

func TestStatusOfAProtector(t *testing.T) {
	h := newHub(t)
	h.protect("web", 5, 9, withReservations(30))
	h.createDenial("web", "web-31", "system:serviceaccount:kube-system:replicaset-controller", 6, time.Minute)
	text := h.mustRun("status", "web")
	wantWords(t, text, h.namespace+"/web", "Denies the next removal: NoBudget.", "9 are available, 30 are being removed, and the "+
		"floor is 5.", "Or lower the floor in the PodProtector",
		"floor 5 minAvailable 5", "available 9 of 10 pods", "under way 30", "budget -26 9 available - 30 under way - 5 floor",
		"9 of 10 available, 30 under way", "aggregator reported", "web-0 Evict admitted", "and 22 more", "who asked not recorded with reservations",
		"7+ denied NoBudget, in "+h.cell+", asked by system:serviceaccount:kube-system:replicaset-controller, web-31, last 60s ago", "Ready True Aggregated")
	wantWords(t, h.mustRun("status", "web", "-o", "wide"), "web-29 Evict")
	h.protect("storm", 5, 9, func(p *v1alpha1.PodProtector) { quota.SetEscrow(&p.Status.Cells[0].AdmissionHistory, "replica", 3, 1) })
	wantWords(t, h.mustRun("status", "storm"), "under way 3", "3 reservations made in advance for the next removals of a storm")
	h.setHeartbeat(time.Hour)
	wantWords(t, h.mustRun("status", "podprotector/web"), "STALE Its aggregator reported last 60m ago, and becomes stale after 60s: its pods count with the "+
		"last known numbers (9 available)")
	_, _, err := runPlugin(t, "", append([]string{"status", "none"}, h.flags...)...)
	wantErrors(t, err, []string{"PodProtector " + h.namespace + "/none does not exist"})
	_, _, err = runPlugin(t, "", append([]string{"status", "web", "-A"}, h.flags...)...)
	wantErrors(t, err, []string{"a protector has one namespace"})
	_, _, err = runPlugin(t, "", append([]string{"status", "-o", "xml"}, h.flags...)...)
	wantErrors(t, err, []string{`--output "xml": want table, wide, json or yaml`})
}

func TestStatusShowsRequestersFromAuditLog(t *testing.T) {
	h := newHub(t)
	h.protect("web", 5, 9, withReservations(2))
	log := filepath.Join(t.TempDir(), "audit.log")
	line := fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","verb":"create","user":{"username":"alice"},"objectRef":{"resource":"pods","namespace":%q,"name":"web-1","subresource":"eviction"},"annotations":{"pods.breakwater.dev/verdict":"Reserved"}}`+"\n", h.namespace)
	h.must(os.WriteFile(log, []byte(line+`{"half": "pods.breakwater.dev/verdict"`), 0o600))
	wantWords(t, h.mustRun("status", "web", "--audit-log", log), "web-0 Evict admitted 0s ago, asked by a user whom the audit log "+
		"does not name", "web-1 Evict admitted 1s ago, asked by alice", "1 line of the audit log could not be read")
	h.must(os.WriteFile(log, []byte("hello\n"), 0o600))
	_, _, err := runPlugin(t, "", append([]string{"status", "web", "--audit-log", log}, h.flags...)...)
	wantErrors(t, err, []string{"contains no event of audit.k8s.io"})
	_, _, err = runPlugin(t, "", append([]string{"status", "web", "--audit-log", log + "x"}, h.flags...)...)
	wantErrors(t, err, []string{"--audit-log", "no such file"})
}

func TestCells(t *testing.T) {
	h := newHub(t)
	wantWords(t, h.mustRun("cells", h.cell), "NAME STATE CONNECTED GUARDED HEARD EPOCH PODS PROTECTORS", h.cell+" ok ? ?", "ago 7 12 3")
	h.setHeartbeat(10 * time.Minute)
	wantWords(t, h.mustRun("cells", h.cell, "-o", "wide"), h.cell+" stale", "10m ago", "agg-0 0 Exact 65s 60s Trust all pods", "Removals are decided by "+
		"old counts of "+h.cell, "Its aggregator agg-0 has not reported for more than 60s", "docs/runbooks/cell-silent.md")
	cell := &v1alpha1.Cell{}
	h.must(h.Get(t.Context(), objectKey("", h.cell), cell))
	cell.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionGuarded, Status: "False", Reason: "WebhookMissing", Message: "The API server calls no webhook.", LastTransitionTime: metav1.Now()}}
	h.must(h.Status().Update(t.Context(), cell))
	unchecked := "Removals in " + h.cell + " are not checked"
	wantWords(t, h.mustRun("cells"), h.cell+" notGuarded ? NO", unchecked, "Guarded False WebhookMissing: The API server calls no webhook.")
	h.protect("web", 5, 9, nil)
	wantWords(t, h.mustRun("status"), "not guarded "+unchecked, "docs/runbooks/cell-unguarded.md", "stale Removals are decided by old counts")
	var protectors struct{ Alarms []status.Alarm }
	h.must(json.Unmarshal([]byte(h.mustRun("status", "-o", "json")), &protectors))
	if !slices.ContainsFunc(protectors.Alarms, func(a status.Alarm) bool { return a.Kind == status.AlarmUnguarded && a.Cell == h.cell }) {
		t.Errorf("status has the alarms %+v, want that %s is not guarded", protectors.Alarms, h.cell)
	}
	var list struct{ Cells []status.Cell }
	h.must(json.Unmarshal([]byte(h.mustRun("cells", h.cell, "-o", "json")), &list))
	if len(list.Cells) != 1 || list.Cells[0].State != "notGuarded" || !list.Cells[0].Stale {
		t.Errorf("%+v", list)
	}
	_, _, err := runPlugin(t, "", append([]string{"cells", "none"}, h.flags...)...)
	wantErrors(t, err, []string{"no Cell none exists"})
}

func TestDenials(t *testing.T) {
	h := newHub(t)
	wantWords(t, h.mustRun("denials"), "No removal was denied or overridden for "+h.namespace+" in the last 60m, according to events")
	h.createDenial("web", "web-0", "alice", 9, 20*time.Second)
	h.createDenial("web", "web-1", "alice", 0, 10*time.Second)
	h.createDenial("api", "api-0", "bob", 0, 2*time.Hour)
	text := h.mustRun("denials")
	wantWords(t, text, "LAST COUNT VERDICT PROTECTOR CELL PODS ASKED BY", "10s ago 11+ NoBudget web "+h.cell+" web-1 and 1 more alice")
	wantNoWords(t, text, "bob")
	wantWords(t, h.mustRun("denials", "--since", "0"), "120m ago", "bob")
	wantWords(t, h.mustRun("denials", "--since", "0", "api", "-o", "wide"), "Breakwater refuses to remove pod \"api-0\"")
	wantWords(t, h.mustRun("denials", "api"), "No removal was denied or overridden for "+h.namespace+"/api")
	wantWords(t, h.mustRun("denials", "--cell", "elsewhere"), "No removal was denied")
	h.createUnattributedDenial("elsewhere", "web-7", 3)
	wantWords(t, h.mustRun("denials", "--cell", "elsewhere"), "4+ UnknownCell - elsewhere web-7 carol")
	wantWords(t, h.mustRun("denials", "--cell", "elsewhere", "-A"), h.namespace, "4+ UnknownCell - elsewhere web-7 carol")
	wantNoWords(t, h.mustRun("denials", "web"), "carol")
	other := newHub(t)
	wantWords(t, other.mustRun("denials", "--cell", "elsewhere"), "No removal was denied")
	var list struct{ Denials []denial.Denial }
	h.must(json.Unmarshal([]byte(h.mustRun("denials", "--cell", h.cell, "-o", "json")), &list))
	if len(list.Denials) != 1 || list.Denials[0].Count != 11 || !list.Denials[0].AtLeast {
		t.Errorf("%+v", list)
	}
	audit := `{"apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","verb":"delete","user":{"username":"carol"},"objectRef":{"resource":"pods","namespace":"` + h.namespace + `","name":"web-7"},"requestReceivedTimestamp":"` + time.Now().UTC().Format(time.RFC3339Nano) + `","responseStatus":{"code":429},"annotations":{"pods.breakwater.dev/verdict":"Full","pods.breakwater.dev/protectors":"hub/` + h.namespace + `/web"}}` + "\n"
	out, _, err := runPlugin(t, audit+audit, append([]string{"denials", "web", "--audit-log", "-", "--cell", "worker-1"}, h.flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	wantWords(t, out, "2 Full web worker-1 web-7 carol")
}

func TestForbiddenReadsNameRemedy(t *testing.T) {
	h := newHub(t)
	h.protect("web", 5, 9, nil)
	for _, arguments := range [][]string{{"status"}, {"status", "web"}, {"denials"}} {
		_, _, err := runPlugin(t, "", append(append(arguments, h.flags...), "--as", "eve")...)
		wantErrors(t, err, []string{`User "eve" cannot`, "request this permission"})
	}
	_, _, err := runPlugin(t, "", append([]string{"cells", "--as", "eve"}, h.flags...)...)
	wantErrors(t, err, []string{`User "eve" cannot list resource "cells"`})
}

func TestStatusWithUnreachableCore(t *testing.T) {
	h := newHub(t)
	h.protect("web", 5, 9, nil)
	unreachable := writeContexts(t, "gone", map[string]*rest.Config{"gone": {Host: "https://127.0.0.1:1"}})
	out, _, err := runPlugin(t, "", "status", "-n", h.namespace, "--core", "hub="+h.flags[1], "--core", "gone="+unreachable)
	wantErrors(t, err, []string{"the output is incomplete", `core "gone"`, "127.0.0.1:1 does not answer"})
	wantWords(t, out, "CORE NAME FLOOR", "hub web 5 9")
	_, _, err = runPlugin(t, "", "status", "--core", "gone="+unreachable)
	wantErrors(t, err, []string{"127.0.0.1:1 does not answer"})
}

func TestStatusOfCoreWithControlCharacterInItsName(t *testing.T) {
	h := newHub(t)
	h.protect("web", 5, 9, nil)
	out, _, err := runPlugin(t, "", "status", "web", "-n", h.namespace, "--core", "hub\t1="+h.flags[1])
	if err != nil {
		t.Fatal(err)
	}
	wantWords(t, out, "web in core hub 1")
}

func TestStatusColors(t *testing.T) {
	h := newHub(t)
	h.protect("web", 5, 5, nil)
	for _, arguments := range [][]string{{"status"}, {"status", "web"}, {"cells"}} {
		wantNoWords(t, h.mustRun(arguments...), "\x1b[")
		colored := h.mustRun(append(arguments, "--color", "always")...)
		if !strings.Contains(colored, "\x1b[") {
			t.Errorf("%v: output has no colors", arguments)
		}
	}
	_, _, err := runPlugin(t, "", append([]string{"status", "--color", "red"}, h.flags...)...)
	wantErrors(t, err, []string{`--color "red"`})
	var list struct{ Protectors []status.Protector }
	h.must(json.Unmarshal([]byte(h.mustRun("status", "-o", "json", "--color", "always")), &list))
}

func TestCompletion(t *testing.T) {
	h := newHub(t)
	h.protect("web", 5, 5, nil)
	for claim, c := range map[string]struct{ arguments, want []string }{
		"protectors": {[]string{"status", ""}, []string{"web\n"}},
		"cells":      {[]string{"cells", ""}, []string{h.cell + "\n"}},
		"namespaces": {[]string{"status", "--namespace", ""}, []string{h.namespace + "\n", "kube-system\n"}},
		"contexts":   {[]string{"status", "--core-context", ""}, []string{"hub\n"}},
		"formats":    {[]string{"cells", "-o", ""}, []string{"wide\n", "yaml\n"}},
		"commands":   {[]string{"de"}, []string{"denials"}},
	} {
		t.Run(claim, func(t *testing.T) {
			var line []string
			if claim != "commands" {
				line = append([]string{"__complete", c.arguments[0]}, h.flags...)
				line = append(line, c.arguments[1:]...)
			} else {
				line = append([]string{"__complete"}, c.arguments...)
			}
			out, _, err := runPlugin(t, "", line...)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("completion does not offer %q:\n%s", want, out)
				}
			}
		})
	}
	var script bytes.Buffer
	root := rootCommand(genericiooptions.IOStreams{In: &script, Out: &script, ErrOut: &script})
	root.SetArgs([]string{"completion", "bash"})
	if err := root.Execute(); err != nil || !strings.Contains(script.String(), "kubectl-breakwater") {
		t.Errorf("%v: %.200s", err, script.String())
	}
}

func objectKey(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}
