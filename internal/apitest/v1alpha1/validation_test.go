package v1alpha1_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// object reads YAML as a user would write it, and gives it a name of its own.
func object(t *testing.T, kind, namespace, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	u.SetNamespace(namespace)
	if u.GetName() == "" {
		u.SetGenerateName("test-")
	}
	return u
}

// wantVerdict creates an object in a dry run. An empty refusal means that it is accepted.
func wantVerdict(t *testing.T, c client.Client, u *unstructured.Unstructured, denial string) {
	t.Helper()
	wantErrorContaining(t, c.Create(t.Context(), u, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)), denial)
}

// repeated returns n items, each by the format with its number.
func repeated(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func TestSelectorsOfPodProtector(t *testing.T) {
	c, namespace := testplane.Client(t), testplane.Namespace(t)
	const (
		key      = "label key"
		noValues = "values must hold at least one value for In and NotIn, and none for Exists and DoesNotExist"
	)
	for claim, test := range map[string]struct{ selector, denial string }{
		"the empty selector selects all":    {`{}`, ""},
		"labels":                            {`{matchLabels: {app: web, example.com/tier: ""}}`, ""},
		"all operators":                     {`{matchExpressions: [{key: a, operator: In, values: [b]}, {key: a, operator: NotIn, values: [c]}, {key: d, operator: Exists}, {key: e, operator: DoesNotExist}]}`, ""},
		"a value twice":                     {`{matchExpressions: [{key: a, operator: In, values: [a, a]}]}`, ""},
		"a key twice":                       {`{matchLabels: {a: b}, matchExpressions: [{key: a, operator: In, values: [b, c]}, {key: a, operator: Exists}]}`, ""},
		"the empty value":                   {`{matchExpressions: [{key: a, operator: In, values: [""]}]}`, ""},
		"a value of 63 characters":          {`{matchLabels: {a: ` + strings.Repeat("v", 63) + `}}`, ""},
		"64 labels":                         {`{matchLabels: {` + repeated(64, "k%d: v, ") + `}}`, ""},
		"In without values":                 {`{matchExpressions: [{key: a, operator: In}]}`, noValues},
		"In with no value":                  {`{matchExpressions: [{key: a, operator: In, values: []}]}`, noValues},
		"NotIn without values":              {`{matchExpressions: [{key: a, operator: NotIn}]}`, noValues},
		"Exists with values":                {`{matchExpressions: [{key: a, operator: Exists, values: [b]}]}`, noValues},
		"DoesNotExist with values":          {`{matchExpressions: [{key: a, operator: DoesNotExist, values: [b]}]}`, noValues},
		"an unknown operator":               {`{matchExpressions: [{key: a, operator: Gt, values: ["1"]}]}`, `supported values: "In", "NotIn", "Exists", "DoesNotExist"`},
		"an expression without a key":       {`{matchExpressions: [{operator: Exists}]}`, "key: Required value"},
		"an expression without an operator": {`{matchExpressions: [{key: a}]}`, "operator: Required value"},
		"an expression with an empty key":   {`{matchExpressions: [{key: "", operator: Exists}]}`, "key"},
		"an expression with a bad key":      {`{matchExpressions: [{key: "a b", operator: Exists}]}`, key},
		"an expression with two slashes":    {`{matchExpressions: [{key: "a/b/c", operator: Exists}]}`, key},
		"an expression with a long name":    {`{matchExpressions: [{key: ` + strings.Repeat("k", 64) + `, operator: Exists}]}`, key},
		"an expression with a bad value":    {`{matchExpressions: [{key: a, operator: In, values: ["b c"]}]}`, "should match"},
		"an expression with 64 characters":  {`{matchExpressions: [{key: a, operator: In, values: [` + strings.Repeat("v", 64) + `]}]}`, "may not be more than 63"},
		"65 expressions":                    {`{matchExpressions: [` + repeated(65, "{key: k%d, operator: Exists}, ") + `]}`, "must have at most 64 items"},
		"a label with a bad key":            {`{matchLabels: {"a b": c}}`, "matchLabels has a key that is not a label key"},
		"a label with an empty key":         {`{matchLabels: {"": c}}`, "matchLabels has a key that is not a label key"},
		"a label with a long name":          {`{matchLabels: {` + strings.Repeat("k", 64) + `: c}}`, "matchLabels has a key that is not a label key"},
		"a label with a bad value":          {`{matchLabels: {a: "b c"}}`, "should match"},
		"a label with 64 characters":        {`{matchLabels: {a: ` + strings.Repeat("v", 64) + `}}`, "may not be more than 63"},
		"65 labels":                         {`{matchLabels: {` + repeated(65, "k%d: v, ") + `}}`, "must have at most 64 items"},
		"a field that does not exist":       {`{matchLabel: {a: b}}`, `unknown field "spec.selector.matchLabel"`},
		"a selector of another shape":       {`app=web`, "must be of type object"},
	} {
		t.Run(claim, func(t *testing.T) {
			wantVerdict(t, c, object(t, "PodProtector", namespace, `spec: {minAvailable: 1, selector: `+test.selector+`}`), test.denial)
		})
	}
}

func TestSpecsOfPodProtector(t *testing.T) {
	c, namespace := testplane.Client(t), testplane.Namespace(t)
	const amount = "must be a number of pods, from 0 to 2147483647, or a percentage from 0% to 100%"
	for claim, test := range map[string]struct{ spec, denial string }{
		"all fields":                          {`{selector: {}, minAvailable: 0, minReadySeconds: 5, admissionHistory: {maxConcurrentLag: 3, compactThreshold: 7, aggregationRateMillis: 250}}`, ""},
		"a threshold of 0 and no rate":        {`{selector: {}, minAvailable: 1, admissionHistory: {compactThreshold: 0, aggregationRateMillis: 0}}`, ""},
		"a threshold of 1":                    {`{selector: {}, minAvailable: 1, admissionHistory: {compactThreshold: 1}}`, ""},
		"no spec":                             {``, "spec: Required value"},
		"no selector":                         {`{minAvailable: 1}`, "give either selector or targetRef"},
		"no floor":                            {`{selector: {}}`, "give either minAvailable or maxUnavailable"},
		"two floors":                          {`{selector: {}, minAvailable: 1, maxUnavailable: 1}`, "give either minAvailable or maxUnavailable"},
		"a floor below 0":                     {`{selector: {}, minAvailable: -1}`, amount},
		"a percentage":                        {`{selector: {}, minAvailable: 70%}`, ""},
		"0 percent":                           {`{selector: {}, minAvailable: 0%}`, ""},
		"100 percent":                         {`{selector: {}, maxUnavailable: 100%}`, ""},
		"maxUnavailable":                      {`{selector: {}, maxUnavailable: 3, expectedReplicas: 10}`, ""},
		"more than 100 percent":               {`{selector: {}, minAvailable: 101%}`, amount},
		"half a percent":                      {`{selector: {}, minAvailable: 0.5%}`, amount},
		"a percentage below 0":                {`{selector: {}, maxUnavailable: -1%}`, amount},
		"a number as text":                    {`{selector: {}, minAvailable: "3"}`, amount},
		"a word":                              {`{selector: {}, maxUnavailable: some}`, amount},
		"maxUnavailable below 0":              {`{selector: {}, maxUnavailable: -1}`, amount},
		"expectedReplicas below 0":            {`{selector: {}, minAvailable: 1, expectedReplicas: -1}`, "greater than or equal to 0"},
		"exempt pods":                         {`{selector: {}, minAvailable: 1, exemptPodSelector: {matchLabels: {a: b}}}`, ""},
		"an invalid exemption":                {`{selector: {}, minAvailable: 1, exemptPodSelector: {matchLabels: {a: "b c"}}}`, "should match"},
		"all criteria":                        {`{selector: {}, minAvailable: 1, criterion: Scheduled}`, ""},
		"an unknown criterion":                {`{selector: {}, minAvailable: 1, criterion: Alive}`, `supported values: "Available", "Ready", "Running", "Scheduled"`},
		"minReadySeconds below 0":             {`{selector: {}, minAvailable: 1, minReadySeconds: -1}`, "greater than or equal to 0"},
		"maxConcurrentLag below 0":            {`{selector: {}, minAvailable: 1, admissionHistory: {maxConcurrentLag: -1}}`, "greater than or equal to 0"},
		"compactThreshold below 0":            {`{selector: {}, minAvailable: 1, admissionHistory: {compactThreshold: -1}}`, "greater than or equal to 0"},
		"compactThreshold above 1000":         {`{selector: {}, minAvailable: 1, admissionHistory: {compactThreshold: 1001}}`, "less than or equal to 1000"},
		"aggregationRateMillis below 0":       {`{selector: {}, minAvailable: 1, admissionHistory: {aggregationRateMillis: -1}}`, "greater than or equal to 0"},
		"aggregationRateMillis of a day":      {`{selector: {}, minAvailable: 1, admissionHistory: {aggregationRateMillis: 86400000}}`, "less than or equal to 3600000"},
		"a target":                            {`{targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxUnavailable: 1}`, ""},
		"a target and a selector":             {`{targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, selector: {}, maxUnavailable: 1}`, "give either selector or targetRef"},
		"a target and an aggregationSelector": {`{targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, aggregationSelector: {}, maxUnavailable: 1}`, "aggregationSelector goes with selector"},
		"a target without a kind":             {`{targetRef: {apiVersion: apps/v1, name: web}, maxUnavailable: 1}`, "spec.targetRef.kind: Required value"},
		"a target of no version":              {`{targetRef: {apiVersion: apps, kind: Deployment, name: web}, maxUnavailable: 1}`, "spec.targetRef.apiVersion"},
		"a target of the core group":          {`{targetRef: {apiVersion: v1, kind: ReplicationController, name: web}, maxUnavailable: 1}`, ""},
		"all operations":                      {`{selector: {}, minAvailable: 1, operations: [Delete, Evict, Update, Resize, Relabel]}`, ""},
		"no operation":                        {`{selector: {}, minAvailable: 1, operations: []}`, "at least 1 items"},
		"an operation twice":                  {`{selector: {}, minAvailable: 1, operations: [Delete, Delete]}`, "Duplicate value"},
		"an unknown operation":                {`{selector: {}, minAvailable: 1, operations: [Reboot]}`, `supported values: "Delete", "Evict", "Update", "Resize", "Relabel"`},
		"updates that time out at once":       {`{selector: {}, minAvailable: 1, admissionHistory: {updateTimeoutSeconds: 1}}`, "greater than or equal to 10"},
		"an unknown field":                    {`{selector: {}, minAvailable: 1, maxAvailable: 1}`, `unknown field "spec.maxAvailable"`},
	} {
		t.Run(claim, func(t *testing.T) {
			text := ""
			if test.spec != "" {
				text = "spec: " + test.spec
			}
			wantVerdict(t, c, object(t, "PodProtector", namespace, orEmpty(text)), test.denial)
		})
	}
}

func orEmpty(text string) string {
	if text == "" {
		return "{}"
	}
	return text
}

func TestSpecsOfCell(t *testing.T) {
	c := testplane.Client(t)
	const bounds = "admissionDeadline must be from 5s to 1h"
	for claim, test := range map[string]struct{ text, denial string }{
		"an empty spec":                {`{}`, ""},
		"the shortest deadline":        {`spec: {admissionDeadline: 5s}`, ""},
		"the longest deadline":         {`spec: {admissionDeadline: 1h}`, ""},
		"a deadline of two units":      {`spec: {admissionDeadline: 1m5s}`, ""},
		"namespaces":                   {`spec: {namespaces: [a, b]}`, ""},
		"256 namespaces":               {`spec: {namespaces: [` + repeated(256, "n%d, ") + `]}`, ""},
		"257 namespaces":               {`spec: {namespaces: [` + repeated(257, "n%d, ") + `]}`, "must have at most 256 items"},
		"no namespace":                 {`spec: {namespaces: []}`, "should have at least 1 items"},
		"a namespace twice":            {`spec: {namespaces: [a, a]}`, "Duplicate value"},
		"an invalid namespace":         {`spec: {namespaces: [A]}`, "should match"},
		"a selector of pods":           {`spec: {podSelector: {matchLabels: {cell: a}}}`, ""},
		"a malformed selector":         {`spec: {podSelector: {matchExpressions: [{key: a, operator: In}]}}`, "values must hold at least one value"},
		"namespaces and a selector":    {`spec: {namespaces: [a], podSelector: {}}`, "namespaces and podSelector exclude each other"},
		"a Secret":                     {`spec: {kubeconfigSecretRef: {namespace: a, name: b}}`, ""},
		"a Secret of no namespace":     {`spec: {kubeconfigSecretRef: {name: b}}`, "namespace: Required value"},
		"staleAfter that is too short": {`spec: {staleAfter: 19s}`, "staleAfter must be from 20s to 24h"},
		"to discount when stale":       {`spec: {whenStale: Discount}`, ""},
		"an unknown whenStale":         {`spec: {whenStale: Forget}`, `supported values: "Trust", "Discount"`},
		"a name of 63 characters":      {`metadata: {name: ` + strings.Repeat("c", 63) + `}`, ""},
		"a deadline that is too short": {`spec: {admissionDeadline: 4s}`, bounds},
		"a deadline that is too long":  {`spec: {admissionDeadline: 61m}`, bounds},
		"an invalid deadline":          {`spec: {admissionDeadline: soon}`, "must be of type duration"},
		"a name of 64 characters":      {`metadata: {name: ` + strings.Repeat("c", 64) + `}`, "at most 63 characters"},
	} {
		t.Run(claim, func(t *testing.T) {
			wantVerdict(t, c, object(t, "Cell", "", test.text), test.denial)
		})
	}
}

func TestScopeOfCellIsImmutable(t *testing.T) {
	c := testplane.Client(t)
	for claim, test := range map[string]struct{ before, after, denial string }{
		"another namespace":             {`{namespaces: [a, b]}`, `{namespaces: [a, c]}`, "namespaces cannot be changed"},
		"an additional namespace":       {`{namespaces: [a, b]}`, `{namespaces: [a, b, c]}`, "namespaces cannot be changed"},
		"namespaces for the first time": {`{}`, `{namespaces: [a]}`, "namespaces cannot be changed"},
		"namespaces removed":            {`{namespaces: [a]}`, `{}`, "namespaces cannot be changed"},
		"namespaces in another order":   {`{namespaces: [a, b]}`, `{namespaces: [b, a]}`, ""},
		"another selector":              {`{podSelector: {matchLabels: {a: b}}}`, `{podSelector: {matchLabels: {a: c}}}`, "podSelector cannot be changed"},
		"a selector for the first time": {`{}`, `{podSelector: {}}`, "podSelector cannot be changed"},
		"a selector removed":            {`{podSelector: {}}`, `{}`, "podSelector cannot be changed"},
		"another field":                 {`{podSelector: {matchLabels: {a: b}}}`, `{podSelector: {matchLabels: {a: b}}, staleAfter: 30s}`, ""},
	} {
		t.Run(claim, func(t *testing.T) {
			cell := object(t, "Cell", "", "spec: "+test.before)
			if err := c.Create(t.Context(), cell); err != nil {
				t.Fatal(err)
			}
			after := object(t, "Cell", "", "spec: "+test.after)
			cell.Object["spec"] = after.Object["spec"]
			err := c.Update(t.Context(), cell, client.DryRunAll)
			if test.denial == "" && err != nil {
				t.Errorf("rejected: %v, want it accepted", err)
			} else if test.denial != "" {
				wantErrorContaining(t, err, test.denial)
			}
		})
	}
}

func TestStatusOfPodProtector(t *testing.T) {
	c, namespace := testplane.Client(t), testplane.Namespace(t)
	p := object(t, "PodProtector", namespace, `{spec: {selector: {}, minAvailable: 1}}`)
	if err := c.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	const aggregation = `aggregation: {totalReplicas: 1, availableReplicas: 1, readyReplicas: 1, runningReplicas: 1, ` +
		`scheduledReplicas: 1, countedReplicas: 1, countedSpec: a, snapshotVersion: "1", lastEventTime: "2026-11-21T12:00:00.000000Z", epoch: 1, holder: a}`
	bucket := func(fields string) string {
		return `{cells: [{cellID: a, ` + aggregation + `, admissionHistory: {buckets: [{startTime: "2026-11-21T12:00:00.000000Z", ` + fields + `}]}}]}`
	}
	for claim, test := range map[string]struct{ status, denial string }{
		"a reservation":               {bucket(`counter: 1, podUID: u, podName: p, operation: Evict`), ""},
		"merged reservations":         {bucket(`counter: 2, podUIDHashes: AAAAAAAAAAEAAAAAAAAAAg==`), ""},
		"an unknown operation":        {bucket(`counter: 1, podUID: u, operation: Reboot`), `supported values: "Delete", "Evict", "Update", "Resize", "Relabel"`},
		"a counter of 0":              {bucket(`counter: 0, podUID: u`), "greater than or equal to 1"},
		"a cell without a name":       {`{cells: [{cellID: "", ` + aggregation + `}]}`, "at least 1 chars"},
		"one cell twice":              {`{cells: [{cellID: a, ` + aggregation + `}, {cellID: a, ` + aggregation + `}]}`, "Duplicate value"},
		"a cell that was not counted": {`{cells: [{cellID: a}]}`, "aggregation: Required value"},
	} {
		t.Run(claim, func(t *testing.T) {
			u := p.DeepCopy()
			var status map[string]any
			if err := yaml.Unmarshal([]byte(test.status), &status); err != nil {
				t.Fatal(err)
			}
			u.Object["status"] = status
			err := c.Status().Update(t.Context(), u, client.DryRunAll)
			switch {
			case test.denial == "" && err != nil:
				t.Errorf("rejected: %v, want it accepted", err)
			case test.denial != "" && (err == nil || !strings.Contains(err.Error(), test.denial)):
				t.Errorf("error = %v, want it to contain %q", err, test.denial)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	c, namespace := testplane.Client(t), testplane.Namespace(t)
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "defaults"}}
	p.Spec.Selector, p.Spec.MinAvailable = &v1alpha1.PodSelector{}, v1alpha1.Pods(0)
	if err := c.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if p.Spec.Criterion != v1alpha1.CriterionAvailable || p.Spec.TargetRemovalPolicy != v1alpha1.TargetRemovalRetain {
		t.Errorf("criterion %q, targetRemovalPolicy %q, want Available and Retain", p.Spec.Criterion, p.Spec.TargetRemovalPolicy)
	}
	if want := v1alpha1.DefaultOperations(); !slices.Equal(p.Spec.Operations, want) {
		t.Errorf("operations %q, want %q", p.Spec.Operations, want)
	}
	h := p.Spec.AdmissionHistory
	if h.MaxConcurrentLag != 0 || h.CompactThreshold == nil || *h.CompactThreshold != 5 ||
		h.AggregationRateMillis == nil || *h.AggregationRateMillis != 1000 ||
		h.UpdateTimeoutSeconds == nil || *h.UpdateTimeoutSeconds != 600 {
		t.Errorf("admissionHistory %+v, want 0, 5, 1000 and 600", h)
	}
	cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{GenerateName: "defaults-"}}
	if err := c.Create(t.Context(), cell); err != nil {
		t.Fatal(err)
	}
	if d := cell.Spec.AdmissionDeadline; d == nil || d.Duration != 65*time.Second {
		t.Errorf("admissionDeadline %v, want 65 s", d)
	}
}

func TestZeroThresholdIsKept(t *testing.T) {
	c, namespace := testplane.Client(t), testplane.Namespace(t)
	zero := int32(0)
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "zero"}}
	p.Spec.Selector, p.Spec.MinAvailable = &v1alpha1.PodSelector{}, v1alpha1.Pods(0)
	p.Spec.AdmissionHistory.CompactThreshold, p.Spec.AdmissionHistory.AggregationRateMillis = &zero, &zero
	if err := c.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	p.Spec.MinReadySeconds = 1
	if err := c.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if h := p.Spec.AdmissionHistory; *h.CompactThreshold != 0 || *h.AggregationRateMillis != 0 {
		t.Errorf("threshold %d and rate %d after a round trip, want 0", *h.CompactThreshold, *h.AggregationRateMillis)
	}
}

func TestSpecAndStatusAreSeparate(t *testing.T) {
	c, namespace := testplane.Client(t), testplane.Namespace(t)
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "apart"}}
	p.Spec.Selector, p.Spec.MinAvailable = &v1alpha1.PodSelector{}, v1alpha1.Pods(0)
	p.Status.DesiredAvailable = 7
	if err := c.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if p.Status.DesiredAvailable != 0 {
		t.Error("a status was created along with its object")
	}
	p.Spec.MinAvailable, p.Status.DesiredAvailable = v1alpha1.Pods(5), 7
	if err := c.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if p.Spec.MinAvailable.IntVal != 0 || p.Status.DesiredAvailable != 7 {
		t.Errorf("after a write of the status: floor %s, desiredAvailable %d, want 0 and 7", p.Spec.MinAvailable, p.Status.DesiredAvailable)
	}
}
