package charts_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// core has the chart's policies for the accounts of three cells: own, other, and sibling, which is in the cluster of own.
type core struct {
	testing.TB
	release string
	admin   client.Client
	// cell is the account of cell own as join creates it. superuser is the account of cell other, with all RBAC permissions.
	cell, superuser client.Client
}

const (
	ownCell, siblingCell, otherCell = "own", "sibling", "other"
	policyDenial                    = "ValidatingAdmissionPolicy"
)

// newCore installs the policies of the rendered chart and the RBAC rules of the accounts of cells.
func newCore(t testing.TB, admin client.Client, release string, set ...string) *core {
	t.Helper()
	c := &core{TB: t, release: release, admin: admin}
	arguments := []string{"--set", "role=core,webhook.enabled=false,fullnameOverride=" + release +
		",remoteCells[0].name=" + ownCell + ",remoteCells[1].name=" + otherCell + ",remoteCells[2].name=" + siblingCell + ",remoteCells[2].identity=" + ownCell}
	for _, s := range set {
		arguments = append(arguments, "--set", s)
	}
	for _, object := range render(t, arguments...) {
		policy := strings.HasPrefix(object.GetKind(), policyDenial)
		if role := object.GetKind() == "ClusterRole" || object.GetKind() == "Role"; policy || role && object.GetName() == release+"-access-cell" {
			c.create(object)
		}
	}
	c.cell, c.superuser = c.clientOf(ownCell), c.clientOf(otherCell)
	name := metav1.ObjectMeta{Name: release + "-access-" + ownCell, Namespace: namespace}
	c.bind(name, release+"-access-cell", ownCell)
	c.create(&rbacv1.RoleBinding{ObjectMeta: name, Subjects: c.subjects(ownCell), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: release + "-access-cell"}})
	c.bind(metav1.ObjectMeta{Name: release + "-access-" + otherCell}, "cluster-admin", otherCell)
	return c
}

func (c *core) create(object client.Object) {
	c.Helper()
	if err := c.admin.Create(c.Context(), object); err != nil {
		c.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
	if object.GetNamespace() == "" {
		c.Cleanup(func() { _ = c.admin.Delete(context.Background(), object) })
	}
}

func (c *core) subjects(cell string) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: c.release + "-access-" + cell}}
}

func (c *core) bind(meta metav1.ObjectMeta, role, cell string) {
	c.Helper()
	meta.Namespace = ""
	c.create(&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: c.subjects(cell), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}})
}

// clientOf returns a client of the account of a cell. "" is the account that all cells shared before each of them had its own.
func (c *core) clientOf(cell string) client.Client {
	c.Helper()
	config := rest.CopyConfig(testplane.Config(c))
	config.Impersonate = rest.ImpersonationConfig{UserName: strings.TrimSuffix("system:serviceaccount:"+namespace+":"+c.release+"-access-"+cell, "-")}
	user, err := client.New(config, client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		c.Fatal(err)
	}
	return user
}

// protector creates a PodProtector with every status field set.
func (c *core) protector(change func(*v1alpha1.PodProtector)) *unstructured.Unstructured {
	c.Helper()
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "p-", Labels: map[string]string{"app": "web"}}}
	p.Spec.Selector, p.Spec.MinAvailable = &v1alpha1.PodSelector{}, v1alpha1.Pods(3)
	fillAllFields(&p.Status)
	cell := p.Status.Cells[0]
	p.Status.Cells = nil
	for _, name := range []string{ownCell, otherCell, siblingCell} {
		one := *cell.DeepCopy()
		one.CellID = name
		p.Status.Cells = append(p.Status.Cells, one)
	}
	condition := p.Status.Conditions[0]
	p.Status.Conditions = nil
	for _, name := range []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionSpreadSatisfied, v1alpha1.ConditionTargetResolved,
		v1alpha1.ConditionRestored, v1alpha1.ConditionDecreasePending, v1alpha1.ConditionOverlapping,
		v1alpha1.ConditionForceDeletable, v1alpha1.ConditionExpectationBelowPods,
	} {
		condition.Type = name
		p.Status.Conditions = append(p.Status.Conditions, condition)
	}
	if change != nil {
		change(p)
	}
	status := p.Status
	c.create(p)
	c.Cleanup(func() { _ = c.admin.Delete(context.Background(), p) })
	p.Status = status
	if err := c.admin.Status().Update(c.Context(), p); err != nil {
		c.Fatal(err)
	}
	return c.read(p)
}

func (c *core) read(object client.Object) *unstructured.Unstructured {
	c.Helper()
	stored := &unstructured.Unstructured{}
	stored.SetAPIVersion(v1alpha1.GroupVersion.String())
	stored.SetKind(strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1alpha1."))
	if err := c.admin.Get(c.Context(), client.ObjectKeyFromObject(object), stored); err != nil {
		c.Fatal(err)
	}
	return stored
}

// awaitPolicies waits until the policies are in force.
func (c *core) awaitPolicies(stored *unstructured.Unstructured) {
	c.Helper()
	changed := stored.DeepCopy()
	changeField(c, changed.Object, []any{"status", "cells", 1, "aggregation", "countedReplicas"})
	testplane.Eventually(c, func() string {
		if err := c.cell.Status().Update(c.Context(), changed.DeepCopy(), client.DryRunAll); !isDenied(err) {
			return fmt.Sprintf("change of another cell: error %v, want a denial by the policy", err)
		}
		return ""
	})
}

func isDenied(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), policyDenial)
}

// wantChangesAllowedOnly changes each status field separately and checks whether the change is allowed as expected.
func (c *core) wantChangesAllowedOnly(user client.Client, stored *unstructured.Unstructured, allowed func(path []any) bool) {
	c.Helper()
	status, _, _ := unstructured.NestedFieldNoCopy(stored.Object, "status")
	fields := leafPaths(status, []any{"status"})
	if len(fields) < 10 {
		c.Fatalf("found %d fields of %v, want all of them", len(fields), stored.Object)
	}
	for _, path := range fields {
		changed := stored.DeepCopy()
		changeField(c, changed.Object, path)
		err := user.Status().Update(c.Context(), changed, client.DryRunAll)
		switch {
		case allowed(path) && err != nil:
			c.Errorf("change of %v: error %v, want it allowed", path, err)
		case !allowed(path) && !isDenied(err):
			c.Errorf("change of %v: error %v, want a denial by the policy", path, err)
		}
	}
}

// isInformational reports whether a field of a protector's status is informational: no decision reads it.
func isInformational(path []any) bool {
	return slices.Contains([]any{"observedGeneration", "desiredAvailable", "expectedReplicas", "disruptionsAllowed", "summary", "spread"}, path[1])
}

func TestTheWebhookOfACellChangesTheReservationsOfItsCellAlone(t *testing.T) {
	c := newCore(t, apiserver(t), "webhooks")
	stored := c.protector(nil)
	c.awaitPolicies(stored)
	c.wantChangesAllowedOnly(c.cell, stored, func(path []any) bool {
		return isInformational(path) || path[1] == "cells" && (path[2] == 0 || path[2] == 2) && path[3] == "admissionHistory"
	})
	c.wantEntryChangesDenied(stored, map[string]func(cells []any) []any{
		"remove the entry of its cell":            func(cells []any) []any { return cells[1:] },
		"remove the entry of another cell":        func(cells []any) []any { return append(cells[:1:1], cells[2]) },
		"add the entry of another cell":           func(cells []any) []any { return append(cells, entryOf(cells[0], "third")) },
		"remove all entries":                      func([]any) []any { return []any{} },
		"remove the reservations of another cell": func(cells []any) []any { delete(cells[1].(map[string]any), "admissionHistory"); return cells },
	})
	counted := stored.DeepCopy()
	cells, _, _ := unstructured.NestedSlice(counted.Object, "status", "cells")
	delete(cells[0].(map[string]any), "admissionHistory")
	if err := unstructured.SetNestedSlice(counted.Object, cells, "status", "cells"); err != nil {
		t.Fatal(err)
	}
	if err := c.cell.Status().Update(t.Context(), counted, client.DryRunAll); err != nil {
		t.Errorf("delete the last reservation of its cell: %v", err)
	}
	c.wantMetadataUnchanged(stored)
	// It may write no field of a Cell, even if RBAC allows it.
	cell := c.filledCell(otherCell)
	c.wantChangesAllowedOnly(c.superuser, cell, func([]any) bool { return false })
}

func TestTheAggregatorOfACellChangesTheEntryOfItsCellAlone(t *testing.T) {
	c := newCore(t, apiserver(t), "aggregators", "access.aggregator=true")
	stored := c.protector(nil)
	c.awaitPolicies(stored)
	allowed := func(conditions ...int) func(path []any) bool {
		return func(path []any) bool {
			switch path[1] {
			case "cells":
				return path[2] != 1 && path[3] != "cellID"
			case "conditions":
				i, _ := path[2].(int)
				return slices.Contains(conditions, i) && path[3] != "type"
			default:
				return isInformational(path)
			}
		}
	}
	c.wantChangesAllowedOnly(c.cell, stored, allowed(0, 1, 6, 7))
	c.wantEntryChangesDenied(stored, map[string]func(cells []any) []any{
		"remove the entry of another cell": func(cells []any) []any { return append(cells[:1:1], cells[2]) },
		"add the entry of another cell":    func(cells []any) []any { return append(cells, entryOf(cells[0], "third")) },
	})
	left := stored.DeepCopy()
	cells, _, _ := unstructured.NestedSlice(left.Object, "status", "cells")
	for claim, entries := range map[string][]any{"remove its entry": cells[1:], "add its entry": cells} {
		if err := unstructured.SetNestedSlice(left.Object, entries, "status", "cells"); err != nil {
			t.Fatal(err)
		}
		if err := c.cell.Status().Update(t.Context(), left); err != nil {
			t.Errorf("%s: %v", claim, err)
		}
	}
	// The aggregator resolves targetRefs. Conditions of the generator release protectors.
	targeted := c.protector(func(p *v1alpha1.PodProtector) {
		p.Spec.Selector, p.Spec.TargetRef = nil, &v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
		p.Status.Conditions[2].Reason = v1alpha1.ReasonTargetFound
	})
	c.wantChangesAllowedOnly(c.cell, targeted, func(path []any) bool {
		return allowed(0, 1, 2, 6, 7)(path) && (path[1] != "conditions" || path[2] != 2 || path[3] != "reason")
	})
	c.wantMetadataUnchanged(stored)
	for name, ok := range map[string]bool{ownCell: true, siblingCell: true, otherCell: false} {
		c.wantChangesAllowedOnly(c.cell, c.filledCell(name), func(path []any) bool {
			i, _ := path[min(2, len(path)-1)].(int)
			return ok && path[1] != "cluster" && (path[1] != "conditions" || i == 0 && path[3] != "type")
		})
	}
	testplane.Eventually(t, func() string { // Leases have their own policy
		err := c.superuser.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "generator"}}, client.DryRunAll)
		if !isDenied(err) {
			return fmt.Sprintf("write to another Lease: error %v, want a denial by the policy", err)
		}
		return ""
	})
	for name, ok := range map[string]bool{"aggregator-" + ownCell: true, "aggregator-" + siblingCell: true, "aggregator-" + otherCell: false, "generator": false} {
		err := c.cell.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, client.DryRunAll)
		if ok && err != nil || !ok && !isDenied(err) {
			t.Errorf("Lease %s: %v, want it allowed: %t", name, err, ok)
		}
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "aggregator-" + otherCell}}
	c.create(lease)
	if err := c.superuser.Update(t.Context(), lease); err != nil {
		t.Errorf("update its own Lease: %v", err)
	}
	if err := c.superuser.Delete(t.Context(), lease); !isDenied(err) {
		t.Errorf("delete a Lease: error %v, want it denied", err)
	}
}

// wantEntryChangesDenied checks that changes of the list of entries are denied.
func (c *core) wantEntryChangesDenied(stored *unstructured.Unstructured, changes map[string]func(cells []any) []any) {
	c.Helper()
	for claim, change := range changes {
		changed := stored.DeepCopy()
		cells, _, _ := unstructured.NestedSlice(changed.Object, "status", "cells")
		if err := unstructured.SetNestedSlice(changed.Object, change(cells), "status", "cells"); err != nil {
			c.Fatal(err)
		}
		if err := c.cell.Status().Update(c.Context(), changed, client.DryRunAll); !isDenied(err) {
			c.Errorf("%s: error %v, want a denial by the policy", claim, err)
		}
	}
}

func entryOf(entry any, name string) any {
	copied := (&unstructured.Unstructured{Object: entry.(map[string]any)}).DeepCopy().Object
	copied["cellID"] = name
	return copied
}

// wantMetadataUnchanged changes fields outside status: the status subresource ignores them, and the main resource denies them.
func (c *core) wantMetadataUnchanged(stored *unstructured.Unstructured) {
	c.Helper()
	stored = stored.DeepCopy()
	applied := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minReadySeconds": int64(3)}}}
	applied.SetGroupVersionKind(stored.GroupVersionKind())
	applied.SetNamespace(stored.GetNamespace())
	applied.SetName(stored.GetName())
	if err := c.admin.Apply(c.Context(), client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("generator")); err != nil {
		c.Fatal(err)
	}
	if err := c.admin.Get(c.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
		c.Fatal(err)
	}
	for claim, change := range map[string]func(*unstructured.Unstructured){
		"a label": func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"app": "db"}) },
		"annotations": func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{v1alpha1.AnnotationConfirmRelease: "true"})
		},
		"finalizers": func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"example.com/a"}) },
		"owners": func(u *unstructured.Unstructured) {
			u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "a", UID: "b"}})
		},
		"the floor": func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, int64(0), "spec", "minAvailable")
		},
		"the criteria": func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "Ready", "spec", "criterion")
		},
	} {
		changed := stored.DeepCopy()
		change(changed)
		if err := c.superuser.Update(c.Context(), changed.DeepCopy(), client.DryRunAll); !isDenied(err) {
			c.Errorf("%s: error %v, want a denial by the policy", claim, err)
		}
		if err := c.cell.Status().Update(c.Context(), changed, client.DryRunAll); err != nil {
			c.Errorf("%s in a status write: %v", claim, err)
		}
		changed.SetManagedFields(stored.GetManagedFields())
		changed.SetResourceVersion(stored.GetResourceVersion())
		if got, want := fmt.Sprint(changed.Object["metadata"], changed.Object["spec"]), fmt.Sprint(stored.Object["metadata"], stored.Object["spec"]); got != want {
			c.Errorf("%s in a status write: got %s, want %s", claim, got, want)
		}
	}
	withoutManagers := stored.DeepCopy()
	if err := unstructured.SetNestedSlice(withoutManagers.Object, []any{map[string]any{}}, "metadata", "managedFields"); err != nil {
		c.Fatal(err)
	}
	// A status write does not change field ownership either.
	if err := c.cell.Status().Update(c.Context(), withoutManagers, client.DryRunAll); err != nil {
		c.Errorf("remove field managers: %v", err)
	}
	if got, want := fieldManagers(withoutManagers), fieldManagers(stored); len(want) == 0 || !slices.Equal(got, want) {
		c.Errorf("field managers after a status write without them: got %v, want %v", got, want)
	}
	for claim, err := range map[string]error{
		"delete a protector": c.superuser.Delete(c.Context(), stored.DeepCopy(), client.DryRunAll),
		"create a protector": c.superuser.Create(c.Context(), &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new"}, Spec: v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{}, MinAvailable: v1alpha1.Pods(0)}}, client.DryRunAll),
		"create a Cell":      c.superuser.Create(c.Context(), &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, client.DryRunAll),
	} {
		if !isDenied(err) {
			c.Errorf("%s: error %v, want a denial by the policy", claim, err)
		}
	}
	// The formerly shared account is not restricted, and neither are other accounts.
	changed := stored.DeepCopy()
	changeField(c, changed.Object, []any{"status", "cells", 1, "aggregation", "countedReplicas"})
	for claim, user := range map[string]client.Client{"the shared account": c.sharedClient(), "an administrator": c.admin} {
		if err := user.Status().Update(c.Context(), changed.DeepCopy(), client.DryRunAll); err != nil {
			c.Errorf("%s: error %v, want it allowed", claim, err)
		}
	}
}

// fieldManagers returns the field managers of fields outside status.
func fieldManagers(u *unstructured.Unstructured) (managers []string) {
	for _, entry := range u.GetManagedFields() {
		if entry.Subresource == "" {
			managers = append(managers, entry.Manager+" "+string(entry.Operation)+" "+entry.FieldsV1.String())
		}
	}
	return managers
}

func (c *core) sharedClient() client.Client {
	c.Helper()
	name := metav1.ObjectMeta{Name: c.release + "-access"}
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: c.release + "-access"}
	c.create(&rbacv1.ClusterRoleBinding{ObjectMeta: name, Subjects: []rbacv1.Subject{subject}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: c.release + "-access-cell"}})
	return c.clientOf("")
}

// filledCell creates a Cell with every status field set.
func (c *core) filledCell(name string) *unstructured.Unstructured {
	c.Helper()
	cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: name}}
	var status v1alpha1.CellStatus
	fillAllFields(&status)
	ready := status.Conditions[0]
	ready.Type = v1alpha1.ConditionReady
	status.Conditions = []metav1.Condition{ready, status.Conditions[0]}
	status.Shards[0].Slots = "1"
	c.create(cell)
	cell.Status = status
	if err := c.admin.Status().Update(c.Context(), cell); err != nil {
		c.Fatal(err)
	}
	return c.read(cell)
}

// With 200 cells of 20 reservations each, a protector has nearly 1 MB.
func TestPolicyCostAllowsTheMaximumNumberOfCells(t *testing.T) {
	c := newCore(t, apiserver(t), "many")
	stored := c.protector(func(p *v1alpha1.PodProtector) { addCells(p, 200, 20) })
	c.awaitPolicies(stored)
	changed := stored.DeepCopy()
	changeField(t, changed.Object, []any{"status", "cells", 0, "admissionHistory", "buckets", 0, "podName"})
	if err := c.cell.Status().Update(t.Context(), changed); err != nil {
		t.Errorf("write a reservation of its cell: error %v, want it allowed", err)
	}
}

// addCells extends a protector from two cells to the given number, with the given number of reservations each.
func addCells(p *v1alpha1.PodProtector, cells, reservations int) {
	p.Status.Cells = p.Status.Cells[:2]
	for i := 2; i < cells; i++ {
		one := *p.Status.Cells[1].DeepCopy()
		one.CellID = fmt.Sprint("cell-", i)
		p.Status.Cells = append(p.Status.Cells, one)
	}
	for i := range p.Status.Cells {
		h := &p.Status.Cells[i].AdmissionHistory
		h.Buckets = nil
		for n := range reservations {
			h.Buckets = append(h.Buckets, v1alpha1.Bucket{
				StartTime: metav1.NewMicroTime(fillTime), Counter: 1, PodUID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%06d%06d", i, n)),
				PodName: fmt.Sprintf("web-7d4b9c8f6d-%05d", n), Operation: v1alpha1.OperationDelete,
			})
		}
	}
}
