package nodeguard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

// AnnotationRegistered is the annotation of a pod that the guard registered again. Its value is the UID by which the kubelet knows the pod.
const AnnotationRegistered = "breakwater.dev/registered-for"

// registrar registers held pods again.
type registrar struct {
	guard *Guard
	// own is the guard's account, and kubelet that of the kubelet.
	own, kubelet *Account
	retention    time.Duration
}

// errNotSound means that a pod can be held but not registered.
var errNotSound = errors.New("the pod cannot be registered again")

// register gives the API server a held pod again. The error says why it could not, and the caller tries again later.
//
// The pod is created without labels and owner, then gets its status, and then the rest: a controller that saw it before it is ready would
// delete it in favor of the replacements that it has created.
func (r *registrar) register(ctx context.Context, e podhold.Entry) error {
	if !e.IsHeld() {
		return nil
	}
	name := e.Pod.NamespacedName
	pod, err := r.guard.lastState(e.Pod.UID)
	if err != nil {
		return err
	}
	if err := soundness(pod); err != nil {
		return err
	}
	if ended, err := r.endAdmitted(ctx, e); ended || err != nil {
		return err
	}
	if e.Registered == "" {
		created, err := r.own.createPod(ctx, registration(pod))
		var status *statusError
		if errors.As(err, &status) && status.code == http.StatusConflict {
			created, err = r.takeName(ctx, e)
		}
		if errors.Is(err, errPresent) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("create the pod: %w", err)
		}
		if !slices.Equal(podhold.PodOf(created).Containers, e.Pod.Containers) {
			return errors.Join(fmt.Errorf("%w: admission changes its containers, so that they would restart", errNotSound), r.own.deletePod(ctx, name, created.UID, false))
		}
		if !r.guard.begin(e.Pod, created.UID) {
			return r.own.deletePod(ctx, name, created.UID, false)
		}
		e.Registered = created.UID
	}
	err = r.complete(ctx, e, pod)
	var status *statusError
	if errors.As(err, &status) && (status.code == http.StatusNotFound || status.code == http.StatusConflict) {
		r.guard.begin(e.Pod, "") // the registration was lost too
	}
	return err
}

// errUnknown means that the API server did not say whether the removal of the pod was admitted.
var errUnknown = errors.New("it cannot be read whether the removal of the pod was admitted")

// endAdmitted ends a held pod whose removal was admitted, and reports whether it was. It must be called before the pod is registered: afterwards
// no component asks for its earlier UID.
func (r *registrar) endAdmitted(ctx context.Context, held podhold.Entry) (bool, error) {
	switch admission := r.guard.admission(ctx, held); {
	case admission == podhold.Admitted:
		r.guard.endHeld(ctx, r.own, held, podhold.EndAdmitted)
		return true, nil
	case admission == podhold.Unknown && podhold.AwaitsAdmission(r.guard.running()-held.HeldAt, r.retention):
		return false, errUnknown
	default:
		return false, nil
	}
}

// errLostAgain means that the registration was lost before it was recorded as complete: the next attempt creates another one.
var errLostAgain = errors.New("the registration was lost before it was complete")

// complete gives the registration of a pod its status, labels and owner.
func (r *registrar) complete(ctx context.Context, e podhold.Entry, pod *corev1.Pod) error {
	name := e.Pod.NamespacedName
	owners, err := r.currentOwners(ctx, pod)
	if err != nil {
		return err
	}
	if err := r.kubelet.patchStatus(ctx, name, e.Registered, pod.Status); err != nil {
		return fmt.Errorf("report the status of the pod: %w", err)
	}
	if err := r.own.patchMetadata(ctx, name, e.Registered, pod.Labels, owners); err != nil {
		return fmt.Errorf("set the labels of the pod: %w", err)
	}
	if !r.guard.complete(name, e.Registered) {
		return errLostAgain
	}
	return nil
}

// takeName returns the pod that has the name of a held pod, if it can be its registration (rule N6).
func (r *registrar) takeName(ctx context.Context, held podhold.Entry) (*corev1.Pod, error) {
	name := held.Pod.NamespacedName
	current, err := r.own.getPod(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("get the pod of the same name: %w", err)
	}
	if e, ok := r.guard.entry(name); ok && e.Registered == current.UID {
		return current, nil // the kubelet's watch has shown it meanwhile
	}
	here := current.Spec.NodeName == r.guard.node
	registers := current.Annotations[AnnotationRegistered] == string(held.Pod.UID)
	switch podhold.DecideName(podhold.PodOf(current), here, registers, current.CreationTimestamp.Time, held) {
	case podhold.Adopt:
		return current, nil
	case podhold.Present:
		r.guard.present(held.Pod, current.UID)
		return nil, errPresent
	case podhold.Yield:
		r.guard.end(held.Pod, podhold.EndReplaced)
		return nil, errNameTaken
	case podhold.Remove:
		if current.DeletionTimestamp != nil {
			return nil, errNameTaken
		}
		if err := r.own.deletePod(ctx, name, current.UID, podhold.PodOf(current).Started); err != nil {
			return nil, fmt.Errorf("delete the replacement of the same name: %w", err)
		}
		return nil, errNameTaken
	default:
		return nil, fmt.Errorf("pod %s with UID %s on node %q has the name of a held one, and another owner: delete it, or release the held one",
			name, current.UID, current.Spec.NodeName)
	}
}

// errNameTaken means that a replacement had the name of the pod. The next attempt can succeed, because it was deleted.
var errNameTaken = errors.New("a replacement had the name of the pod")

// errPresent means that the API server has the pod itself, so that it need not be registered.
var errPresent = errors.New("the API server has the pod")

// soundness returns why a pod cannot be registered again; nil if it can.
func soundness(p *corev1.Pod) error {
	switch {
	case len(p.Spec.EphemeralContainers) > 0:
		return fmt.Errorf("%w: an API server accepts no new pod with ephemeral containers, and without them the kubelet would stop them", errNotSound)
	case len(p.Spec.ResourceClaims) > 0:
		return fmt.Errorf("%w: its resource claims belong to its old UID", errNotSound)
	}
	for i := range p.Spec.Volumes {
		if p.Spec.Volumes[i].Ephemeral != nil {
			return fmt.Errorf("%w: its volume %s belongs to its old UID", errNotSound, p.Spec.Volumes[i].Name)
		}
	}
	return nil
}

// registration returns the pod to create, without labels and owner. Its deletion cost is the highest, unless it has one: its controller may have
// created replacements, and a ReplicaSet that has too many pods would otherwise choose by the nodes they are on if all are ready.
func registration(p *corev1.Pod) *corev1.Pod {
	annotations := map[string]string{AnnotationRegistered: string(p.UID), corev1.PodDeletionCost: strconv.Itoa(math.MaxInt32)}
	for key, value := range p.Annotations {
		if key != AnnotationRegistered {
			annotations[key] = value
		}
	}
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, GenerateName: p.GenerateName, Finalizers: p.Finalizers, Annotations: annotations},
		Spec:       p.Spec,
	}
}

// currentOwners returns the owners of a pod with their current UIDs. Owners that do not exist are left out: the garbage collector would
// delete the pod because of them, and a controller of its labels adopts it without.
func (r *registrar) currentOwners(ctx context.Context, p *corev1.Pod) ([]metav1.OwnerReference, error) {
	owners := []metav1.OwnerReference{}
	for _, owner := range p.OwnerReferences {
		path, known := ownerPath(p.Namespace, owner)
		if !known {
			owners = append(owners, owner)
			continue
		}
		var current metav1.PartialObjectMetadata
		err := r.own.do(ctx, http.MethodGet, path, "", nil, &current)
		var status *statusError
		switch {
		case errors.As(err, &status) && status.code == http.StatusNotFound:
			continue
		case err != nil:
			return nil, fmt.Errorf("get the owner %s %s: %w", owner.Kind, owner.Name, err)
		}
		owner.UID = current.UID
		owners = append(owners, owner)
	}
	return owners, nil
}

func ownerPath(namespace string, owner metav1.OwnerReference) (string, bool) {
	plural, known := map[string]string{
		"apps/v1 ReplicaSet": "replicasets", "apps/v1 StatefulSet": "statefulsets", "apps/v1 DaemonSet": "daemonsets", "batch/v1 Job": "jobs",
	}[owner.APIVersion+" "+owner.Kind]
	return "/apis/" + owner.APIVersion + "/namespaces/" + namespace + "/" + plural + "/" + owner.Name, known
}

// nameRetry is short: the controller that replaced the pod replaces it again as soon as it can.
const nameRetry = 20 * time.Millisecond

// run registers pods as they are lost, several at a time but each by one worker, until ctx ends. It repeats what fails.
func (r *registrar) run(ctx context.Context) {
	queue := r.guard.lost
	context.AfterFunc(ctx, queue.ShutDown)
	var workers sync.WaitGroup
	for range parallelRequests {
		workers.Go(func() {
			for {
				name, ended := queue.Get()
				if ended {
					return
				}
				e, _ := r.guard.entry(name)
				err := r.register(ctx, e)
				switch {
				case err == nil:
				case errors.Is(err, errNameTaken):
					queue.AddAfter(name, nameRetry)
				default:
					queue.AddAfter(name, r.guard.explain(e.Pod, err))
				}
				queue.Done(name)
			}
		})
	}
	workers.Wait()
}
