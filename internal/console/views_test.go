package console

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

func TestPagesShowWhatVisitorMayList(t *testing.T) {
	s := newTestConsole(t)
	other := testplane.Namespace(t)
	web := s.createProtector(s.namespace, "web", 12, 10)
	s.createProtector(other, "bank", 5, 5)
	s.must(s.Create(t.Context(), &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))
	s.createDenial(web, denial.Note(`Breakwater refuses to remove pod "web-1": PodProtector x would have fewer pods available than its floor.`, "ann", "worker-1", "NoBudget", 7))
	all := s.token("all", []string{""}, allRules()...)
	some := s.token("some", []string{s.namespace}, listRule("breakwater.dev", "podprotectors"))
	denied := s.token("denied", []string{s.namespace}, listRule("breakwater.dev", "podprotectors"), listRule("events.k8s.io", "events"))
	none := s.token("none", nil)

	path := "/protectors/" + s.namespace + "/web"
	s.awaitPage(path, all, "fewer pods available than its floor")
	s.awaitPage("/", all, other+"/</span>bank")
	for claim, c := range map[string]struct {
		path, token string
		want        int
		has, hasNot []string
	}{
		"a user with all permissions sees everything": {"/", all, 200, []string{"web", "bank", "removals refused", "recently refused"}, []string{"You may not list PodProtectors"}},
		"and the cells": {"/cells", all, 200, []string{s.namespace}, nil},
		"a user of one namespace sees that namespace":    {"/", some, 200, []string{">web<"}, []string{"bank", "recently refused", "removals refused"}},
		"but not another one":                            {"/?namespace=" + other, some, 200, []string{"You may not list PodProtectors in namespace "}, []string{">bank<"}},
		"nor its protectors":                             {"/protectors/" + other + "/bank", some, 403, []string{"You may not see this"}, nil},
		"nor whether there are any":                      {"/protectors/" + other + "/nothing", some, 403, []string{"You may not see this"}, nil},
		"nor cells":                                      {"/cells", some, 403, []string{"list cells"}, nil},
		"nor denials, without permission to list events": {path, some, 200, []string{">12<", "need permission to list events"}, []string{"fewer pods available", "refused in 15 min"}},
		"but denials with that permission":               {path, denied, 200, []string{"fewer pods available", "7 more", "requested by <bdi>ann</bdi>", "NoBudget", "<b>8</b> refused in 15 min"}, nil},
		"a user without permissions sees nothing":        {"/", none, 200, []string{"You may not list PodProtectors in any namespace"}, []string{">web<", "bank"}},
		"a protector that does not exist is not found":   {"/protectors/" + s.namespace + "/nothing", all, 404, []string{"There is no such protector"}, nil},
		"a page that does not exist is not found":        {"/nothing", all, 404, []string{"There is no such page"}, nil},
		"a wrong token is rejected":                      {"/", "wrong", 401, []string{"You are not signed in"}, []string{"web"}},
		"the API has the same rules for protectors":      {"/api/protectors/" + other + "/bank", some, 403, []string{`"error":"You may not see this"`}, nil},
		"and for cells":                                  {"/api/cells", some, 403, []string{`"error"`}, nil},
	} {
		t.Run(claim, func(t *testing.T) {
			code, body, _ := s.get(c.path, c.token)
			if code != c.want {
				t.Errorf("code %d, want %d: %s", code, c.want, body)
			}
			for _, text := range c.has {
				if !strings.Contains(body, text) {
					t.Errorf("body does not contain %q:\n%s", text, body)
				}
			}
			for _, text := range c.hasNot {
				if strings.Contains(body, text) {
					t.Errorf("body contains %q:\n%s", text, body)
				}
			}
		})
	}
	wantData(s, path, some, denied)
}

// wantData checks that the JSON API shows the same as the page.
func wantData(s *testConsole, path, some, denied string) {
	s.Helper()
	for token, want := range map[string]int{some: 0, denied: 8} {
		_, body, header := s.get("/api"+path, token)
		got := protectorBody{}
		s.must(json.Unmarshal([]byte(body), &got))
		marks := 0
		for _, p := range got.Points {
			marks += int(p.Denied)
		}
		if got.Available != 12 || *got.Floor.Pods != 10 || got.Allowed != 2 || got.Denied != want || marks != want || header.Get("Content-Type") != "application/json" {
			s.Errorf("%+v of %s", got, header)
		}
	}
}

func TestRevokedPermissionsEndPages(t *testing.T) {
	s := newTestConsole(t)
	s.createProtector(s.namespace, "web", 12, 10)
	token := s.token("some", []string{s.namespace}, listRule("breakwater.dev", "podprotectors"))
	path := "/protectors/" + s.namespace + "/web"
	s.awaitPage(path, token, ">12<")
	stream, _ := s.open(path, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
	if _, _, err := stream.next("page"); err != nil {
		t.Fatal(err)
	}
	s.deleteRoleBinding("some")
	if event, _, err := stream.next("end"); err != nil || event != "end" {
		t.Errorf("stream continues after %s: %v", event, err)
	}
	if code, _, _ := s.get(path, token); code != http.StatusForbidden {
		t.Errorf("code %d", code)
	}
}

func TestHostileTextIsEscaped(t *testing.T) {
	s := newTestConsole(t)
	web := s.createProtector(s.namespace, "web", 12, 10)
	const attack = `</script><script>alert(1)</script><img src=x onerror=alert(2)>" onmouseover="alert(3)` + bidi
	s.createDenial(web, denial.Note(attack, "eve"+bidi, "worker-1", "NoBudget", 0))
	web.Status.Conditions = []metav1.Condition{{
		Type: "Ready", Status: "True", Reason: "Aggregated", Message: attack, LastTransitionTime: metav1.Now(),
	}}
	s.must(s.Status().Update(t.Context(), web))
	all := s.token("all", []string{""}, allRules()...)
	body := s.awaitPage("/protectors/"+s.namespace+"/web", all, "alert(3)")
	for _, path := range []string{"/?q=" + "%22%3E%3Cscript%3Ealert(1)%3C/script%3E", "/?namespace=%3Cscript%3Ealert(1)", "/protectors/x/%3Cscript%3Ealert(1)", "/sign-in?next=%22%3E%3Cscript%3Ealert(1)"} {
		_, more, _ := s.get(path, all)
		body += more
	}
	wantShown(t, "a page", body)
	if !strings.Contains(body, `<bdi>eve\u202e`) {
		t.Errorf("page does not show the user:\n%s", body)
	}
	stream, _ := s.open("/protectors/"+s.namespace+"/web", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+all) })
	if _, data, err := stream.next("page"); err != nil || !strings.Contains(data, `<bdi>eve\u202e`) {
		t.Errorf("stream sent %q, error %v", data, err)
	} else {
		wantShown(t, "a stream", data)
	}
	_, data, _ := s.get("/api/protectors/"+s.namespace+"/web", all)
	wantShown(t, "JSON", data)
	got := protectorBody{}
	s.must(json.Unmarshal([]byte(data), &got))
	if len(got.Denials) != 1 || got.Denials[0].User != "eve"+bidi {
		t.Errorf("JSON has the denials %+v, want one of user eve%q", got.Denials, bidi)
	}
	for _, bad := range []string{"<script>alert", "<img src=x", `" onmouseover="alert`} {
		if strings.Contains(body, bad) {
			t.Errorf("page contains %q:\n%s", bad, body)
		}
	}
}

// bidi contains characters that reverse or hide the text after them.
const bidi = "\u202e\u2066\u200b\x1b[8m\u2028\u3164\U000e0041"

// wantShown checks that a text contains only printable characters, line feeds and tabs.
func wantShown(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		if !printable.IsShown(r) && r != '\n' && r != '\t' {
			t.Errorf("%s has %U:\n%s", what, r, text)
			return
		}
	}
}

func TestPagesContainOnlyPrintableText(t *testing.T) {
	pages, err := newPages("https://runbooks.example")
	if err != nil {
		t.Fatal(err)
	}
	condition := status.Condition{Type: "Connected", Status: "False", Reason: bidi, Message: bidi}
	for name, f := range map[string]frame{
		"problem": {Title: bidi, User: "eve" + bidi, Body: problem{Title: bidi, Text: bidi}},
		"sign-in": {Title: "Sign in", Body: signInForm{Next: "/" + bidi, Problem: bidi}},
		"cells":   {Title: "Cells", User: "eve" + bidi, Body: cellsBody{Cells: []cellView{{Cell: status.Cell{Name: "worker-1", Holder: bidi, Conditions: []status.Condition{condition}}}}}},
	} {
		answer := httptest.NewRecorder()
		pages.writePage(answer, http.StatusOK, name, f)
		wantShown(t, "the page "+name, answer.Body.String())
		part, err := pages.renderLive(name, f)
		if err != nil {
			t.Fatal(err)
		}
		wantShown(t, "the live part of the page "+name, part)
		if !strings.Contains(part, `\u202e\u2066\u200b\u001b[8m`) {
			t.Errorf("page %s does not show its data:\n%s", name, part)
		}
	}
}

// The first page names each state in which removals are not checked, are all denied, or are decided by old counts, and shows nothing of it in green.
func TestFirstPageShowsAlarms(t *testing.T) {
	pages, err := newPages("https://runbooks.example")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	beat := metav1.NewMicroTime(now)
	cell := func(kind string, is metav1.ConditionStatus, heard time.Duration) cellView {
		c := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}
		c.Status.Aggregator.LastHeartbeat = &beat
		c.Status.Conditions = []metav1.Condition{{Type: kind, Status: is}}
		return viewOfCell("", c, heartbeat{at: now.Add(-heard), changed: true}, now)
	}
	healthy := cell(v1alpha1.ConditionGuarded, metav1.ConditionTrue, 0)
	away := []coreState{{Name: "core", Unreachable: true, Answered: &now}}
	for claim, c := range map[string]struct {
		cell   cellView
		cores  []coreState
		says   []string
		isLive bool
	}{
		"all is well":           {healthy, nil, []string{`<span class="badge good">fresh</span>`, `<td class="n strong">2</td>`}, true},
		"a cell is not guarded": {cell(v1alpha1.ConditionGuarded, "False", 0), nil, []string{"Removals in worker-1 are not checked", "https://runbooks.example/cell-unguarded.md"}, true},
		"a cell is stale":       {cell(v1alpha1.ConditionGuarded, "True", time.Hour), nil, []string{"decided by old counts of worker-1", "https://runbooks.example/cell-silent.md"}, true},
		"a core is unreachable": {healthy.lastKnown(), away, []string{
			"all removals of protected pods are denied", "https://runbooks.example/core-down.md", `<td class="n strong">?</td>`,
		}, false},
		"a cell is not guarded, and its core is unreachable": {cell(v1alpha1.ConditionGuarded, "False", 0).lastKnown(), away, []string{"Removals in worker-1 are not checked"}, false},
	} {
		t.Run(claim, func(t *testing.T) {
			c.cell.ID = "west.worker-1" // of another core than the first
			b := fleetBody{Cells: []cellView{c.cell}}
			for _, core := range c.cores {
				b.addCore(core)
			}
			b.addAlarms(b.Cells...)
			b.fleet = fleetOf([]row{{Namespace: "shop", Name: "web", Allowed: 2, listing: listing{CoreUnreachable: !c.isLive}}}, query{})
			part, err := pages.renderLive("fleet", frame{Path: "/", Body: b, Old: b.isOld(), Status: b.status()})
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range c.says {
				if !strings.Contains(part, text) {
					t.Errorf("page does not contain %q:\n%s", text, part)
				}
			}
			if links := strings.Count(part, `href="/cells#cell-west.worker-1"`); links != 1+len(c.cell.Alarms) {
				t.Errorf("page has %d links to the cell, want one in the strip and one for each alarm:\n%s", links, part)
			}
			isGreen := strings.Contains(part, `badge good">fresh`) || strings.Contains(part, `badge good">ok`) && !c.isLive
			if isGreen != (claim == "all is well") || strings.Contains(part, "data-old") == c.isLive {
				t.Errorf("page is green: %v, and marked as old: %v:\n%s", isGreen, strings.Contains(part, "data-old"), part)
			}
		})
	}
}

func TestProtectorPageShowsShares(t *testing.T) {
	pages, err := newPages("https://runbooks.example")
	if err != nil {
		t.Fatal(err)
	}
	p := &v1alpha1.PodProtector{}
	p.Spec.MinAvailable = v1alpha1.Pods(61)
	for _, cell := range []string{"worker-1", "worker-2"} {
		p.Status.Cells = append(p.Status.Cells, v1alpha1.PodProtectorCell{
			CellID: cell, Aggregation: v1alpha1.Aggregation{CountedReplicas: 50, CountedSpec: quota.CountedSpec(&p.Spec)},
		})
	}
	page := func() string {
		part, err := pages.renderLive("protector", frame{Path: "/", Body: bodyOf(p, statusOf("", p, 0, time.Now()))})
		if err != nil {
			t.Fatal(err)
		}
		return part
	}
	const share, none = `<td class="n">31</td><td class="n">19</td>`, `<td class="n">–</td><td class="n">–</td>`
	if part := page(); strings.Contains(part, "Share</th>") {
		t.Errorf("the page of a protector without shares shows some:\n%s", part)
	}
	p.Status.Cells[0].Share = &v1alpha1.CellShare{Floor: 31, TermVersion: "1"}
	if part := page(); !strings.Contains(part, "Share</th>") || strings.Count(part, share) != 1 || strings.Count(part, none) != 1 {
		t.Errorf("the page does not show one cell with a share and one without:\n%s", part)
	}
}

// The page of a protector shows what kubectl breakwater status shows of it.
func TestProtectorPageShowsItsStatus(t *testing.T) {
	pages, err := newPages("https://runbooks.example")
	if err != nil {
		t.Fatal(err)
	}
	half, gone := intstr.FromString("50%"), v1alpha1.ExpectedWorkload{Kind: "Deployment", Name: "old", Gone: true}
	p := protector(0, 6, 2, condition(v1alpha1.ConditionTargetResolved, "True"), func(p *v1alpha1.PodProtector) {
		p.Annotations = map[string]string{v1alpha1.AnnotationRestored: ""}
		p.Spec.MinAvailable, p.Spec.ExpectedReplicas = &half, ptr.To(int32(8))
		p.Spec.Spread = &v1alpha1.Spread{TopologyKey: v1alpha1.TopologyKeyCell, TolerateDomainLoss: true}
		cell := &p.Status.Cells[0]
		cell.Aggregation.Workloads = append(cell.Aggregation.Workloads, gone)
		cell.AdmissionHistory.Buckets = append(cell.AdmissionHistory.Buckets, v1alpha1.Bucket{Counter: 7, StartTime: metav1.NewMicroTime(now)})
		p.Status.Cells = append(p.Status.Cells,
			v1alpha1.PodProtectorCell{CellID: "worker-2", Discount: v1alpha1.DiscountDraining}, v1alpha1.PodProtectorCell{CellID: "worker-3", Aggregation: v1alpha1.Aggregation{Void: true}})
	})
	part, err := pages.renderLive("protector", frame{Path: "/", Body: bodyOf(p, statusOf("", p, 0, now))})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"4: minAvailable 50% of 8 expected (spec.expectedReplicas)", "Deployment/old was deleted, and its pods are still expected.", "<b>9</b> removals under way",
		"web-a</th><td>worker-1</td><td>Evict", "7 pods</th><td>worker-1</td><td>–", "tolerates the loss of any domain", `<th scope="row">worker-1</th><td class="n">6</td><td class="n">100 %`,
		"worker-2 <span class=\"badge bad\">Draining</span>", "The Cell is being deleted", "counts not used", "The protector or its core was restored", "restored</span>",
	} {
		if !strings.Contains(part, text) {
			t.Errorf("the page does not contain %q:\n%s", text, part)
		}
	}
}

// newDenial returns a denial of an event.
func newDenial(event string, at time.Time, removals int) denial.Denial {
	return denial.Denial{Event: event, Last: at, Count: removals}
}

func TestFleetIsPaged(t *testing.T) {
	store := newStore(time.Now, maxPoints)
	for i := range 10_000 {
		p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "n" + string(rune('a'+i%26)), Name: "web-" + time.Duration(i).String()}}
		p.Spec.MinAvailable = v1alpha1.Pods(1)
		store.setProtector(p)
		store.addDenial(nameOf(p), newDenial("e", time.Now(), 3))
	}
	every := func(string) bool { return true }
	f := fleetOf(store.protectors(every, every), query{Page: 200})
	if f.Totals.Protectors != 10_000 || len(f.Rows) != pageSize || f.Pages != 200 || f.Totals.Denied != 30_000 {
		t.Errorf("%d rows, %d pages, %+v", len(f.Rows), f.Pages, f.Totals)
	}
	f = fleetOf(store.protectors(func(n string) bool { return n == "nb" }, every), query{Text: "web-27ns", Page: 9})
	if f.Found != 1 || f.Page != 1 || f.Rows[0].Namespace != "nb" {
		t.Errorf("%+v", f)
	}
}

func TestDenialsAreBounded(t *testing.T) {
	now := time.Now()
	store := newStore(func() time.Time { return now }, maxPoints)
	for i := range 200_000 {
		key := nameOf(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: time.Duration(i % 5_000).String()}})
		store.addDenial(key, newDenial(time.Duration(i).String(), now, 1))
		if store.denialCount > maxDenials {
			t.Fatalf("store keeps %d denials", store.denialCount)
		}
	}
	now = now.Add(2 * time.Hour)
	store.update(func(time.Time) {})
	if store.denialCount != 0 || len(store.denials) != 0 {
		t.Errorf("store keeps %d denials of two hours ago", store.denialCount)
	}
}

func TestEventSeriesIsCountedOnce(t *testing.T) {
	store := newStore(time.Now, maxPoints)
	key := nameOf(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
	for _, removals := range []int{1, 1, 4, 4, 9} {
		store.addDenial(key, newDenial("web.1", time.Now(), removals))
	}
	points, _ := store.historyOf(key, time.Now(), time.Minute)
	total := 0
	for _, p := range points {
		total += int(p.Denied)
	}
	if total != 9 || len(store.denialsOf(key)) != 1 {
		t.Errorf("timeline has %d denied removals, denials %+v", total, store.denialsOf(key))
	}
}
