// Package inventory creates Cells from inventories of clusters: the cluster Secrets of Argo CD, and ClusterProfiles. It keeps the kubeconfigs of
// these Cells up to date. It never deletes a Cell or a kubeconfig, and changes none that it did not create.
package inventory

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// Name is the name of the controller, of its field manager, and of the manager in the labels of what it creates.
const Name = "breakwater-inventory"

const (
	// checkInterval is how often the controller checks each Cell without a change. The check also restores the Cell's Secret.
	checkInterval = 10 * time.Minute
	// retryInterval is the same while an entry has no effect: its cluster may become reachable. It also repeats the events before they expire.
	retryInterval = time.Minute
)

// connectTimeout bounds the requests that find out to which cluster an entry leads.
const connectTimeout = 5 * time.Second

// Reconciler creates Cells, and updates their kubeconfigs. A request has the name of a Cell, which exists or which an entry requests.
type Reconciler struct {
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	// Cells has the connections to the clusters of Cells that refer to no kubeconfig.
	Cells map[string]*rest.Config
	// SecretNamespace is the namespace of the kubeconfigs.
	SecretNamespace string

	inventories []inventory
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	o, err := r.observe(ctx, request.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	d := decide(o)
	for _, rejected := range d.rejections {
		r.Events.Eventf(rejected.entry.object, nil, corev1.EventTypeWarning, rejected.reason, "Enroll", "%s", clusters.EventNote(rejected.note))
	}
	if d.create != nil {
		if err := r.createCell(ctx, o.name, d.create); err != nil {
			return reconcile.Result{}, err
		}
	}
	if d.kubeconfig != nil {
		if err := r.applySecret(ctx, o, d.kubeconfig); err != nil {
			return reconcile.Result{}, err
		}
	}
	if d.listed != nil {
		if err := r.applyCondition(ctx, o.cell, *d.listed); err != nil {
			return reconcile.Result{}, err
		}
	}
	switch {
	case len(d.rejections) > 0 || d.listed != nil && d.listed.Reason == v1alpha1.ReasonEntryUnusable:
		return reconcile.Result{RequeueAfter: retryInterval}, nil
	case d.listed != nil:
		return reconcile.Result{RequeueAfter: checkInterval}, nil
	}
	return reconcile.Result{}, nil
}

// observe reads the Cell and its Secret from the API server: a cache may not show what this controller wrote last.
func (r *Reconciler) observe(ctx context.Context, name string) (o observed, err error) {
	o.name = name
	for _, i := range r.inventories {
		entries, err := i.entriesOf(ctx, name)
		if err != nil {
			return o, err
		}
		o.entries = append(o.entries, entries...)
	}
	key := r.secretKey(name)
	o.secretName = key.String()
	if !isCellName(name) {
		return o, nil
	}
	o.cell, o.secret = &v1alpha1.Cell{}, &corev1.Secret{}
	if err := r.Live.Get(ctx, client.ObjectKey{Name: name}, o.cell); err != nil {
		o.cell = nil
		if client.IgnoreNotFound(err) != nil {
			return o, fmt.Errorf("get Cell %s: %w", name, err)
		}
	}
	if err := r.Live.Get(ctx, key, o.secret); err != nil {
		o.secret = nil
		if client.IgnoreNotFound(err) != nil {
			return o, fmt.Errorf("get Secret %s: %w", key, err)
		}
	}
	return o, r.verifyEntries(ctx, &o)
}

// verifyEntries finds out to which cluster each entry leads, while the Cell has no recorded cluster. A cluster with two Cells would count its pods
// twice, for instance after an entry was renamed. Later, all components reject a kubeconfig of another cluster.
func (r *Reconciler) verifyEntries(ctx context.Context, o *observed) error {
	if o.cell != nil && (!isOwned(o.cell) || o.cell.Status.Cluster != "") {
		return nil
	}
	cells := &v1alpha1.CellList{}
	if err := r.Live.List(ctx, cells); err != nil {
		return fmt.Errorf("list Cells: %w", err)
	}
	cell := o.cell
	if cell == nil {
		cell = r.newCell(o.name, "")
	}
	for n := range o.entries {
		if e := &o.entries[n]; e.err == nil {
			e.err = r.verifyEntry(ctx, cell, e.kubeconfig, cells.Items)
		}
	}
	return nil
}

// verifyEntry returns an error unless a kubeconfig leads to a cluster that has no other Cell.
func (r *Reconciler) verifyEntry(ctx context.Context, cell *v1alpha1.Cell, kubeconfig []byte, cells []v1alpha1.Cell) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	_, cluster, err := clusters.ConnectBy(ctx, cell, kubeconfig, "inventory")
	if err != nil {
		return err
	}
	for n := range cells {
		other := &cells[n]
		if other.Name == cell.Name {
			continue
		}
		switch taken, err := r.clusterOf(ctx, other); {
		case err != nil:
			return fmt.Errorf("whether its cluster already has the Cell %s is unknown: %w", other.Name, err)
		case taken == cluster:
			return fmt.Errorf("its cluster already has the Cell %s, and pods in two Cells count twice: exclude the entry from the inventory, or delete that Cell first",
				other.Name)
		}
	}
	return nil
}

// clusterOf returns the cluster of a Cell; empty if no component of the core can connect to it.
func (r *Reconciler) clusterOf(ctx context.Context, cell *v1alpha1.Cell) (cluster string, err error) {
	switch config := r.Cells[cell.Name]; {
	case cell.Status.Cluster != "":
		return cell.Status.Cluster, nil
	case cell.Spec.KubeconfigSecretRef != nil:
		_, cluster, err = clusters.Connect(ctx, r.Live, cell, "inventory")
	case config != nil:
		cluster, err = clusters.VerifyCluster(ctx, cell, config)
	}
	return cluster, err
}

// secretKey returns the name of the Secret with the kubeconfig of a Cell.
func (r *Reconciler) secretKey(cell string) client.ObjectKey {
	return client.ObjectKey{Namespace: r.SecretNamespace, Name: "cell-" + cell}
}

// newCell returns the Cell of an entry.
func (r *Reconciler) newCell(name, source string) *v1alpha1.Cell {
	key := r.secretKey(name)
	return &v1alpha1.Cell{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{managedBy: Name}, Annotations: map[string]string{v1alpha1.AnnotationInventoryEntry: source},
		},
		Spec: v1alpha1.CellSpec{KubeconfigSecretRef: &v1alpha1.KubeconfigSecretRef{Namespace: key.Namespace, Name: key.Name, Key: kubeconfigKey}},
	}
}

// createCell creates a Cell. It does not apply it, which would take over a Cell that another client has created meanwhile. The Secret follows
// when the Cell exists: a Secret without a Cell means that a user deleted the Cell.
func (r *Reconciler) createCell(ctx context.Context, name string, e *entry) error {
	cell := r.newCell(name, e.source)
	if err := r.Client.Create(ctx, cell, client.FieldOwner(Name)); err != nil {
		return fmt.Errorf("create Cell %s: %w", name, err)
	}
	log.FromContext(ctx).Info("Created Cell", "cell", name, "entry", e.source)
	r.Events.Eventf(cell, nil, corev1.EventTypeNormal, v1alpha1.ReasonEntryFound, "Enroll", "The Cell was created for the entry %s.", e.source)
	return nil
}

// applySecret writes a kubeconfig. An existing Secret is one that this controller created, and its UID keeps another one from being changed.
func (r *Reconciler) applySecret(ctx context.Context, o observed, kubeconfig []byte) error {
	key := r.secretKey(o.name)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{managedBy: Name}}}
	var err error
	if o.secret == nil {
		secret.Data = map[string][]byte{kubeconfigKey: kubeconfig}
		err = r.Client.Create(ctx, secret, client.FieldOwner(Name))
	} else {
		fields := clusters.NewApply(corev1.SchemeGroupVersion.WithKind("Secret"), secret, o.secret.UID)
		fields.SetLabels(secret.Labels)
		fields.Object["data"] = map[string]any{kubeconfigKey: base64.StdEncoding.EncodeToString(kubeconfig)}
		err = r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(fields), client.FieldOwner(Name), client.ForceOwnership)
	}
	if err != nil {
		return fmt.Errorf("write Secret %s: %w", o.secretName, err)
	}
	log.FromContext(ctx).Info("Wrote kubeconfig", "cell", o.name, "secret", klog.KObj(secret))
	return nil
}

// applyCondition writes the condition if it differs, and emits an event if its status or reason does.
func (r *Reconciler) applyCondition(ctx context.Context, cell *v1alpha1.Cell, listed metav1.Condition) error {
	before := meta.FindStatusCondition(cell.Status.Conditions, listed.Type)
	if before != nil && before.Status == listed.Status && before.Reason == listed.Reason && before.Message == listed.Message {
		return nil
	}
	after := cell.DeepCopy()
	meta.SetStatusCondition(&after.Status.Conditions, listed)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(meta.FindStatusCondition(after.Status.Conditions, listed.Type))
	if err != nil {
		return err
	}
	object := clusters.NewApply(v1alpha1.GroupVersion.WithKind("Cell"), cell, cell.UID)
	object.Object["status"] = map[string]any{"conditions": []any{fields}}
	if err := r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(Name), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply the condition %s of Cell %s: %w", listed.Type, cell.Name, err)
	}
	isGood := func(c metav1.Condition) bool { return c.Status == metav1.ConditionTrue }
	clusters.ConditionRecorder{Events: r.Events, Action: "Enroll", IsGood: isGood}.RecordChanges(ctx, cell, cell.Status.Conditions, []metav1.Condition{listed})
	return nil
}
