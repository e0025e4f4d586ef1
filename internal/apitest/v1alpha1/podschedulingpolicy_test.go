package v1alpha1_test

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// wantSchedulingVerdict creates a policy of each kind.
func wantSchedulingVerdict(t *testing.T, c client.Client, namespace, spec, denial string) {
	t.Helper()
	wantVerdict(t, c, object(t, "PodSchedulingPolicy", namespace, `{spec: {`+spec+`}}`), denial)
	wantVerdict(t, c, object(t, "ClusterPodSchedulingPolicy", "", `{spec: {namespaceSelector: {}, `+spec+`}}`), denial)
}

func TestSchedulingPolicies(t *testing.T) {
	c, namespace := testplane.Client(t), testplane.Namespace(t)
	const (
		criteria = "give at least one of affinity, nodeName, nodeSelector, schedulerName, tolerations and topologySpreadConstraints"
		inject   = "templateUpdates: Inject needs PodTemplates among targets"
		around   = "nodeName bypasses the scheduler"
	)
	for claim, test := range map[string]struct{ spec, denial string }{
		"all pods":                                 {`podSelector: {}, schedulerName: mine`, ""},
		"protected pods":                           {`protectorSelector: {}, schedulerName: mine`, ""},
		"some of the protected pods":               {`podSelector: {matchLabels: {a: b}}, protectorSelector: {matchLabels: {c: d}}, schedulerName: mine`, ""},
		"all fields":                               {`podSelector: {}, priority: 5, targets: [Pods, PodTemplates], templateUpdates: Inject, conflictPolicy: Reject, schedulerName: mine`, ""},
		"no selector":                              {`schedulerName: mine`, ""},
		"null for a selector":                      {`podSelector: null, schedulerName: mine`, ""},
		"a malformed selector":                     {`podSelector: {matchExpressions: [{key: a, operator: In}]}, schedulerName: mine`, "values must hold at least one value"},
		"nothing to add":                           {`podSelector: {}`, criteria},
		"no labels of nodes":                       {`podSelector: {}, nodeSelector: {}`, "at least 1 properties"},
		"no tolerations":                           {`podSelector: {}, tolerations: []`, "at least 1 items"},
		"no constraints":                           {`podSelector: {}, topologySpreadConstraints: []`, "at least 1 items"},
		"no affinity":                              {`podSelector: {}, affinity: {}`, "give at least one of nodeAffinity, podAffinity and podAntiAffinity"},
		"an empty scheduler":                       {`podSelector: {}, schedulerName: ""`, "at least 1 chars"},
		"an invalid scheduler name":                {`podSelector: {}, schedulerName: "a b"`, "should match"},
		"a priority that is too high":              {`podSelector: {}, schedulerName: mine, priority: 1000001`, "less than or equal to 1000000"},
		"no targets":                               {`podSelector: {}, schedulerName: mine, targets: []`, "at least 1 items"},
		"another target":                           {`podSelector: {}, schedulerName: mine, targets: [Jobs]`, `supported values: "Pods", "PodTemplates"`},
		"a target twice":                           {`podSelector: {}, schedulerName: mine, targets: [Pods, Pods]`, "Duplicate value"},
		"updates of pods":                          {`podSelector: {}, schedulerName: mine, templateUpdates: Inject`, inject},
		"updates of explicit pods":                 {`podSelector: {}, schedulerName: mine, templateUpdates: Inject, targets: [Pods]`, inject},
		"updates that are ignored":                 {`podSelector: {}, schedulerName: mine, templateUpdates: Ignore`, ""},
		"another policy of conflicts":              {`podSelector: {}, schedulerName: mine, conflictPolicy: Overwrite`, `supported values: "KeepExisting", "Reject"`},
		"a node":                                   {`podSelector: {}, nodeName: node-1.example.com`, ""},
		"a node and tolerations":                   {`podSelector: {}, nodeName: node-1, tolerations: [{operator: Exists}]`, ""},
		"an invalid node name":                     {`podSelector: {}, nodeName: Node_1`, "should match"},
		"a node and a scheduler":                   {`podSelector: {}, nodeName: node-1, schedulerName: mine`, around},
		"a node and labels of nodes":               {`podSelector: {}, nodeName: node-1, nodeSelector: {a: b}`, around},
		"a node and affinity":                      {`podSelector: {}, nodeName: node-1, affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a}]}}`, around},
		"a node and constraints":                   {`podSelector: {}, nodeName: node-1, topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]`, around},
		"labels of nodes":                          {`podSelector: {}, nodeSelector: {a: "", example.com/b: c}`, ""},
		"32 labels of nodes":                       {`podSelector: {}, nodeSelector: {` + repeated(32, "k%d: v, ") + `}`, ""},
		"33 labels of nodes":                       {`podSelector: {}, nodeSelector: {` + repeated(33, "k%d: v, ") + `}`, "must have at most 32"},
		"labels of nodes by a bad key":             {`podSelector: {}, nodeSelector: {"a b": c}`, "nodeSelector has a key that is not a label key"},
		"labels of nodes by a bad value":           {`podSelector: {}, nodeSelector: {a: "b c"}`, "should match"},
		"a field that does not exist":              {`podSelector: {}, schedulerName: mine, dnsPolicy: None`, "unknown field"},
		"a toleration of all taints":               {`podSelector: {}, tolerations: [{operator: Exists}]`, ""},
		"a toleration for some time":               {`podSelector: {}, tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]`, ""},
		"tolerations of one key":                   {`podSelector: {}, tolerations: [{key: a, value: b}, {key: a, value: c}, {key: a, operator: Exists}, {key: a, value: b, effect: NoSchedule}]`, ""},
		"a toleration twice":                       {`podSelector: {}, tolerations: [{key: a, value: b}, {key: a, operator: Equal, value: b}]`, "two tolerations have the same key, operator, value and effect"},
		"a toleration of two times":                {`podSelector: {}, tolerations: [{key: a, effect: NoExecute, tolerationSeconds: 1}, {key: a, effect: NoExecute}]`, "two tolerations have the same key, operator, value and effect"},
		"33 tolerations":                           {`podSelector: {}, tolerations: [` + repeated(33, "{key: k%d}, ") + `]`, "must have at most 32 items"},
		"a toleration without a key":               {`podSelector: {}, tolerations: [{value: a}]`, "a toleration without a key matches all taints: set operator Exists, or a key"},
		"a toleration with a value that exists":    {`podSelector: {}, tolerations: [{key: a, operator: Exists, value: b}]`, "operator Exists takes no value"},
		"a toleration with a bad key":              {`podSelector: {}, tolerations: [{key: a b, operator: Exists}]`, "should match"},
		"a toleration with another operator":       {`podSelector: {}, tolerations: [{key: a, operator: Gt, value: "1"}]`, `supported values: "Equal", "Exists"`},
		"a toleration of another effect":           {`podSelector: {}, tolerations: [{key: a, operator: Exists, effect: Never}]`, `supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`},
		"a time of a taint that does not evict":    {`podSelector: {}, tolerations: [{key: a, operator: Exists, effect: NoSchedule, tolerationSeconds: 5}]`, "tolerationSeconds needs effect NoExecute"},
		"a time of all taints":                     {`podSelector: {}, tolerations: [{key: a, operator: Exists, tolerationSeconds: 5}]`, "tolerationSeconds needs effect NoExecute"},
		"a field that Kubernetes has for pods too": {`podSelector: {}, tolerations: [{key: a, operator: Exists, seconds: 1}]`, "unknown field"},
	} {
		t.Run(claim, func(t *testing.T) { wantSchedulingVerdict(t, c, namespace, test.spec, test.denial) })
	}
	t.Run("one of the cluster without namespaces", func(t *testing.T) {
		wantVerdict(t, c, object(t, "ClusterPodSchedulingPolicy", "", `{spec: {podSelector: {}, schedulerName: mine}}`), "")
	})
}

func TestAffinityOfSchedulingPolicies(t *testing.T) {
	c, namespace := testplane.Client(t), testplane.Namespace(t)
	const (
		values  = "values must hold at least one value for In and NotIn, and none for Exists and DoesNotExist"
		whole   = "values must hold one whole number of at most 18 digits for Gt and Lt"
		neither = "give matchExpressions or matchFields: a term without either matches no node"
	)
	nodes := func(terms string) string {
		return `nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [` + terms + `]}}`
	}
	expression := func(requirement string) string { return nodes(`{matchExpressions: [{key: a, ` + requirement + `}]}`) }
	field := func(requirement string) string { return nodes(`{matchFields: [{` + requirement + `}]}`) }
	pods := func(term string) string {
		return `podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{` + term + `}]}`
	}
	for claim, test := range map[string]struct{ affinity, denial string }{
		"all operators": {nodes(`{matchExpressions: [{key: a, operator: In, values: [b, ""]}, {key: a, operator: NotIn, values: [c]}, {key: d, operator: Exists}, {key: e, operator: DoesNotExist}, {key: f, operator: Gt, values: ["0"]}, {key: f, operator: Lt, values: ["999999999999999999"]}],
			matchFields: [{key: metadata.name, operator: In, values: [node-1]}, {key: metadata.name, operator: NotIn, values: [node-2.example.com]}]}`), ""},
		"no terms":                                {nodes(``), "at least 1 items"},
		"16 terms":                                {nodes(repeated(16, `{matchExpressions: [{key: k%d, operator: Exists}]}, `)), ""},
		"17 terms":                                {nodes(repeated(17, `{matchExpressions: [{key: k%d, operator: Exists}]}, `)), "must have at most 16 items"},
		"an empty term":                           {nodes(`{}`), neither},
		"a term of nothing":                       {nodes(`{matchExpressions: []}`), "at least 1 items"},
		"17 requirements":                         {nodes(`{matchExpressions: [` + repeated(17, `{key: k%d, operator: Exists}, `) + `]}`), "must have at most 16 items"},
		"128 values":                              {expression(`operator: In, values: [` + repeated(128, "v%d, ") + `]`), ""},
		"129 values":                              {expression(`operator: In, values: [` + repeated(129, "v%d, ") + `]`), "must have at most 128 items"},
		"In without values":                       {expression(`operator: In`), values},
		"NotIn with no value":                     {expression(`operator: NotIn, values: []`), values},
		"Exists with values":                      {expression(`operator: Exists, values: [b]`), values},
		"DoesNotExist with values":                {expression(`operator: DoesNotExist, values: [b]`), values},
		"Gt without a value":                      {expression(`operator: Gt`), whole},
		"Gt with two values":                      {expression(`operator: Gt, values: ["1", "2"]`), whole},
		"Gt with a word":                          {expression(`operator: Gt, values: [many]`), whole},
		"Lt with half a number":                   {expression(`operator: Lt, values: ["0.5"]`), whole},
		"Lt with a number below 0":                {expression(`operator: Lt, values: ["-1"]`), "should match"},
		"Lt with a number that is too large":      {expression(`operator: Lt, values: ["1000000000000000000"]`), whole},
		"another operator":                        {expression(`operator: Like, values: [b]`), "Unsupported value"},
		"a bad value":                             {expression(`operator: In, values: ["b c"]`), "should match"},
		"an invalid key":                          {nodes(`{matchExpressions: [{key: a b, operator: Exists}]}`), "should match"},
		"a key with a long name":                  {nodes(`{matchExpressions: [{key: ` + strings.Repeat("k", 64) + `, operator: Exists}]}`), "should match"},
		"no key":                                  {nodes(`{matchExpressions: [{operator: Exists}]}`), "key: Required value"},
		"another field of a node":                 {field(`key: metadata.uid, operator: In, values: [b]`), `supported values: "metadata.name"`},
		"another operator for a field":            {field(`key: metadata.name, operator: Exists`), `supported values: "In", "NotIn"`},
		"two values for a field":                  {field(`key: metadata.name, operator: In, values: [a, b]`), "must have at most 1 item"},
		"no value for a field":                    {field(`key: metadata.name, operator: In, values: []`), "at least 1 items"},
		"an invalid name as the value of a field": {field(`key: metadata.name, operator: In, values: [A_B]`), "should match"},
		"nodes that are preferred":                {`nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}`, ""},
		"nodes that are preferred by 0":           {`nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}`, "greater than or equal to 1"},
		"nodes that are preferred by 101":         {`nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}`, "less than or equal to 100"},
		"nodes that are preferred without a term": {`nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {}}]}`, neither},
		"pods":                                  {pods(`topologyKey: zone, labelSelector: {matchLabels: {a: b}}, namespaces: [x], namespaceSelector: {}, matchLabelKeys: [c], mismatchLabelKeys: [d]`), ""},
		"pods without a topologyKey":            {pods(`labelSelector: {}`), "topologyKey: Required value"},
		"pods with an empty topologyKey":        {pods(`topologyKey: ""`), "at least 1 chars"},
		"pods with an invalid topologyKey":      {pods(`topologyKey: "a b"`), "should match"},
		"pods in an invalid namespace":          {pods(`topologyKey: a, namespaces: [A]`), "should match"},
		"pods by keys without a selector":       {pods(`topologyKey: a, matchLabelKeys: [c]`), "matchLabelKeys and mismatchLabelKeys need a labelSelector"},
		"pods by other keys without a selector": {pods(`topologyKey: a, mismatchLabelKeys: [c]`), "matchLabelKeys and mismatchLabelKeys need a labelSelector"},
		"pods by a key both ways":               {pods(`topologyKey: a, labelSelector: {}, matchLabelKeys: [c], mismatchLabelKeys: [c]`), "either one of matchLabelKeys or of mismatchLabelKeys"},
		"pods by a key that is selected":        {pods(`topologyKey: a, labelSelector: {matchLabels: {c: d}}, matchLabelKeys: [c]`), "either one of matchLabelKeys or of labelSelector"},
		"pods by a key that must exist":         {pods(`topologyKey: a, labelSelector: {matchExpressions: [{key: c, operator: Exists}]}, matchLabelKeys: [c]`), "either one of matchLabelKeys or of labelSelector"},
		"9 terms of pods":                       {`podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [` + repeated(9, "{topologyKey: k%d}, ") + `]}`, "must have at most 8 items"},
		"pods that are preferred":               {`podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: a}}]}`, ""},
		"pods that are preferred by 0":          {`podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, podAffinityTerm: {topologyKey: a}}]}`, "greater than or equal to 1"},
		"no terms of pods":                      {`podAffinity: {}`, "give requiredDuringSchedulingIgnoredDuringExecution or preferredDuringSchedulingIgnoredDuringExecution"},
	} {
		t.Run(claim, func(t *testing.T) {
			wantSchedulingVerdict(t, c, namespace, `podSelector: {}, affinity: {`+test.affinity+`}`, test.denial)
		})
	}
}

func TestSpreadOfSchedulingPolicies(t *testing.T) {
	c, namespace := testplane.Client(t), testplane.Namespace(t)
	for claim, test := range map[string]struct{ constraints, denial string }{
		"all fields":              {`{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 2, nodeAffinityPolicy: Honor, nodeTaintsPolicy: Ignore, labelSelector: {matchLabels: {a: b}}, matchLabelKeys: [c]}`, ""},
		"keys without a selector": {`{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [c]}`, ""},
		"one topologyKey with both values of whenUnsatisfiable": {`{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}`, ""},
		"one topologyKey twice":                                 {`{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}`, "Duplicate value"},
		"no topologyKey":                                        {`{maxSkew: 1, whenUnsatisfiable: DoNotSchedule}`, "topologyKey: Required value"},
		"an empty topologyKey":                                  {`{maxSkew: 1, topologyKey: "", whenUnsatisfiable: DoNotSchedule}`, "at least 1 chars"},
		"no skew":                                               {`{topologyKey: zone, whenUnsatisfiable: DoNotSchedule}`, "maxSkew: Required value"},
		"a skew of 0":                                           {`{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}`, "greater than or equal to 1"},
		"no whenUnsatisfiable":                                  {`{maxSkew: 1, topologyKey: zone}`, "whenUnsatisfiable: Required value"},
		"another value":                                         {`{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: Wait}`, `supported values: "DoNotSchedule", "ScheduleAnyway"`},
		"minDomains with ScheduleAnyway":                        {`{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, minDomains: 2}`, "minDomains needs whenUnsatisfiable DoNotSchedule"},
		"minDomains of 0":                                       {`{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 0}`, "greater than or equal to 1"},
		"a key that is selected":                                {`{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {c: d}}, matchLabelKeys: [c]}`, "either one of matchLabelKeys or of labelSelector"},
		"a key that must exist":                                 {`{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchExpressions: [{key: c, operator: Exists}]}, matchLabelKeys: [c]}`, "either one of matchLabelKeys or of labelSelector"},
		"an invalid nodeAffinityPolicy":                         {`{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, nodeAffinityPolicy: Maybe}`, `supported values: "Honor", "Ignore"`},
		"17 constraints":                                        {repeated(17, `{maxSkew: 1, topologyKey: k%d, whenUnsatisfiable: DoNotSchedule}, `), "must have at most 16 items"},
		"an invalid selector of pods":                           {`{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {"a b": c}}}`, "matchLabels has a key that is not a label key"},
	} {
		t.Run(claim, func(t *testing.T) {
			wantSchedulingVerdict(t, c, namespace, `podSelector: {}, topologySpreadConstraints: [`+test.constraints+`]`, test.denial)
		})
	}
}

func TestSchedulingPolicyDefaultsAndStatus(t *testing.T) {
	c := testplane.Client(t)
	p := &v1alpha1.PodSchedulingPolicy{}
	p.GenerateName, p.Namespace, p.Spec.PodSelector, p.Spec.NodeName = "test-", testplane.Namespace(t), &v1alpha1.PodSelector{}, "node-1"
	if err := c.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if s := p.Spec; s.Priority != 0 || !reflect.DeepEqual(s.Targets, []v1alpha1.SchedulingTarget{v1alpha1.TargetPods}) ||
		s.TemplateUpdates != v1alpha1.TemplateUpdatesIgnore || s.ConflictPolicy != v1alpha1.ConflictKeepExisting {
		t.Errorf("defaults: %+v", s)
	}
	now := metav1.Now().Rfc3339Copy()
	p.Status = v1alpha1.PodSchedulingPolicyStatus{ObservedGeneration: 1, Matched: 1 << 40, Injected: 2, Conflicts: 3, Rejected: 4, LastInjected: &now,
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionConflicting, Status: metav1.ConditionFalse, Reason: "None", LastTransitionTime: now}}}
	want := p.Status.DeepCopy()
	if err := c.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
		t.Fatal(err)
	}
	if !p.Status.LastInjected.Equal(want.LastInjected) || p.Status.Matched != want.Matched || p.Status.Rejected != 4 || len(p.Status.Conditions) != 1 {
		t.Errorf("%+v, want %+v", p.Status, want)
	}
}

func TestSchedulingPoliciesHaveShortNames(t *testing.T) {
	c := testplane.Client(t)
	for kind, name := range map[string]string{"podschedulingpolicies": "podsched", "clusterpodschedulingpolicies": "cpodsched"} {
		crd := &unstructured.Unstructured{}
		crd.SetAPIVersion("apiextensions.k8s.io/v1")
		crd.SetKind("CustomResourceDefinition")
		if err := c.Get(t.Context(), client.ObjectKey{Name: kind + ".breakwater.dev"}, crd); err != nil {
			t.Fatal(err)
		}
		names, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "acceptedNames", "shortNames")
		categories, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "acceptedNames", "categories")
		if !reflect.DeepEqual(names, []string{name}) || !reflect.DeepEqual(categories, []string{"breakwater"}) {
			t.Errorf("%s: short names %v, categories %v", kind, names, categories)
		}
	}
}

// What a policy can say is written as in a pod: the JSON of our types is that of Kubernetes'.
func TestCriteriaHaveThePodFormat(t *testing.T) {
	pod := reflect.TypeFor[corev1.PodSpec]()
	criteria := reflect.TypeFor[v1alpha1.SchedulingCriteria]()
	for i := range criteria.NumField() {
		ours := criteria.Field(i)
		theirs, ok := fieldByJSON(pod, jsonName(ours))
		if !ok {
			t.Errorf("pods have no field %s", jsonName(ours))
			continue
		}
		sameJSON(t, jsonName(ours), ours.Type, theirs.Type)
	}
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func fieldByJSON(in reflect.Type, name string) (reflect.StructField, bool) {
	for i := range in.NumField() {
		if f := in.Field(i); jsonName(f) == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// sameJSON compares two types in both directions: what Kubernetes gets new must be looked at.
func sameJSON(t *testing.T, at string, ours, theirs reflect.Type) {
	t.Helper()
	for ours.Kind() == reflect.Pointer {
		ours = ours.Elem()
	}
	for theirs.Kind() == reflect.Pointer {
		theirs = theirs.Elem()
	}
	if ours.Kind() != theirs.Kind() {
		t.Errorf("%s is a %s, want %s as in a pod", at, ours, theirs)
		return
	}
	switch ours.Kind() {
	case reflect.Slice, reflect.Map:
		sameJSON(t, at+"[]", ours.Elem(), theirs.Elem())
	case reflect.Struct:
		for i := range theirs.NumField() {
			name := jsonName(theirs.Field(i))
			if f, ok := fieldByJSON(ours, name); ok {
				sameJSON(t, at+"."+name, f.Type, theirs.Field(i).Type)
			} else {
				t.Errorf("%s has no field %s, want it as in a pod", at, name)
			}
		}
		if ours.NumField() != theirs.NumField() {
			t.Errorf("%s has %d fields, want %d as in a pod", at, ours.NumField(), theirs.NumField())
		}
	}
}
