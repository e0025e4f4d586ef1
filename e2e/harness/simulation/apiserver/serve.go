package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// handler answers the requests of one connection from the store.
type handler struct {
	store *Store
	by    *Link
}

// serve executes a request at one instant.
func (h handler) serve(c *call) *reply {
	object, err := h.handle(c)
	if err != nil {
		return failure(err)
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return failure(err)
	}
	code := http.StatusOK
	if c.method == http.MethodPost {
		code = http.StatusCreated
	}
	return &reply{code: code, body: raw}
}

func failure(err error) *reply {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	body := status.Status()
	body.Kind, body.APIVersion = "Status", "v1"
	raw, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("apiserver: a status has no JSON: %v", err))
	}
	return &reply{code: int(body.Code), body: raw}
}

func (h handler) handle(c *call) (any, error) {
	switch c.method {
	case http.MethodGet:
		if c.kind == nil {
			return discover(c.path)
		}
		if c.subresource == scaleSubresource {
			return h.scale(c)
		}
		if c.key.Name == "" {
			return h.list(c), nil
		}
		return h.get(c)
	case http.MethodPost:
		return h.create(c)
	case http.MethodPut:
		return h.put(c)
	case http.MethodPatch:
		return h.patch(c)
	case http.MethodDelete:
		return h.store.Delete(c.kind.Resource, c.key, c.precondition(), h.by.name)
	}
	return nil, apierrors.NewMethodNotSupported(h.store.group(c.kind.Resource), c.method)
}

func (h handler) get(c *call) (any, error) {
	object, err := h.store.Get(c.kind.Resource, c.key)
	if err == nil && c.metadata {
		return metadataOf(object), nil
	}
	return object, err
}

// list answers from the newest state. If the request accepts any state, it answers from one of the last states.
func (h handler) list(c *call) any {
	objects, version := h.store.List(c.kind.Resource, c.key.Namespace)
	if c.query.Get("resourceVersion") == "0" {
		h.store.mu.Lock()
		var old map[types.NamespacedName]client.Object
		old, version = h.store.laggingState(c, h.by)
		objects = sorted(old, c.key.Namespace)
		h.store.mu.Unlock()
	}
	c.listVersion = version
	if wanted, err := labels.Parse(c.query.Get("labelSelector")); err == nil {
		objects = slices.DeleteFunc(objects, func(o client.Object) bool { return !wanted.Matches(labels.Set(o.GetLabels())) })
	}
	if wanted, err := fields.ParseSelector(c.query.Get("fieldSelector")); err == nil {
		objects = slices.DeleteFunc(objects, func(o client.Object) bool { return !isSelectedShare(wanted, o) })
	}
	if c.metadata {
		return metadataList(objects, version)
	}
	return map[string]any{
		"kind": c.kind.Kind + "List", "apiVersion": c.kind.GroupVersion().String(),
		"metadata": map[string]any{"resourceVersion": strconv.FormatUint(version, 10)}, "items": nonNil(objects),
	}
}

// isSelectedShare reports whether a field selector leaves an object in a list, by the only field that PodProtectors can be selected by.
func isSelectedShare(wanted fields.Selector, o client.Object) bool {
	p, ok := o.(*v1alpha1.PodProtector)
	if !ok {
		return true
	}
	name := ""
	if p.Spec.ShareOf != nil {
		name = p.Spec.ShareOf.Name
	}
	return wanted.Matches(fields.Set{"spec.shareOf.name": name})
}

// sawProtectors records a list or an event of a watch of all protectors, which fills the cache of its client. The generator also lists those of one
// namespace, without the cache.
func (l *Link) sawProtectors(c *call, version uint64, isList bool) {
	if c.kind != nil && c.kind.Kind == "PodProtector" && c.key == (types.NamespacedName{}) {
		l.recordSeen(version, isList)
	}
}

func nonNil(objects []client.Object) []client.Object {
	if objects == nil {
		return []client.Object{}
	}
	return objects
}

// laggingState returns the state of a resource in a watch cache that lags.
func (s *Store) laggingState(c *call, by *Link) (map[types.NamespacedName]client.Object, uint64) {
	version := s.version - min(s.version-100, by.dice.Rand(by.name+" old list").Uint64N(10))
	return s.at(c.kind.Resource, version), version
}

func metadataList(objects []client.Object, version uint64) any {
	list := &metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: metav1.SchemeGroupVersion.String()},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatUint(version, 10)},
	}
	for _, o := range objects {
		list.Items = append(list.Items, *metadataOf(o))
	}
	return list
}

func metadataOf(o client.Object) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: metav1.SchemeGroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
			DeletionTimestamp: o.GetDeletionTimestamp(), Labels: o.GetLabels(), Annotations: o.GetAnnotations(),
			Generation: o.GetGeneration(), OwnerReferences: o.GetOwnerReferences(),
		},
	}
}

// precondition returns the version that an object must have to be deleted; empty is any.
func (c *call) precondition() string {
	options := metav1.DeleteOptions{}
	if json.Unmarshal(c.body, &options) != nil || options.Preconditions == nil || options.Preconditions.ResourceVersion == nil {
		return ""
	}
	return *options.Preconditions.ResourceVersion
}

func (c *call) object() (client.Object, error) {
	object := c.kind.New()
	if err := json.Unmarshal(c.body, object); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return object, nil
}

func (h handler) create(c *call) (any, error) {
	object, err := c.object()
	if err != nil {
		return nil, err
	}
	if c.kind.Kind == "Event" && !strings.HasPrefix(object.GetName(), "released-") {
		return object, nil // the simulation does not read them
	}
	object.SetNamespace(c.key.Namespace)
	if err := h.checkNamespace(c); err != nil {
		return nil, err
	}
	if c.query.Get("dryRun") != "" {
		if _, err := h.store.Get(c.kind.Resource, client.ObjectKeyFromObject(object)); err == nil {
			return nil, apierrors.NewAlreadyExists(h.store.group(c.kind.Resource), object.GetName())
		}
		return object, nil
	}
	if p, ok := object.(*v1alpha1.PodProtector); ok {
		if err := recordCreator(p, c.query.Get("fieldManager")); err != nil {
			return nil, err
		}
	}
	return h.store.Create(c.kind.Resource, object, h.by.name)
}

// checkNamespace returns an error if the namespace of an object to be created is terminating.
func (h handler) checkNamespace(c *call) error {
	namespace, err := h.store.Get(Namespaces, types.NamespacedName{Name: c.key.Namespace})
	if err != nil || namespace.GetDeletionTimestamp() == nil {
		return nil
	}
	denial := apierrors.NewForbidden(h.store.group(c.kind.Resource), c.key.Name, errors.New("the namespace is being terminated"))
	cause := metav1.StatusCause{Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace"}
	denial.ErrStatus.Details.Causes = append(denial.ErrStatus.Details.Causes, cause)
	return denial
}

// put replaces an object, or its status if the subresource is status.
func (h handler) put(c *call) (any, error) {
	object, err := c.object()
	if err != nil {
		return nil, err
	}
	return h.store.Update(c.kind.Resource, c.key, object.GetResourceVersion(), h.by.name, func(stored client.Object) error {
		if uid := object.GetUID(); uid != "" && uid != stored.GetUID() {
			return h.uidConflict(c)
		}
		replace(stored, object, c.subresource == "status")
		return nil
	})
}

func (h handler) uidConflict(c *call) error {
	return apierrors.NewConflict(h.store.group(c.kind.Resource), c.key.Name, errors.New("the UID is another"))
}

// replace copies the status from an object, or everything but the status, and the owners of fields in both cases.
func replace(stored, object client.Object, status bool) {
	if owners := object.GetManagedFields(); len(owners) > 0 {
		stored.SetManagedFields(owners)
	}
	to, from := reflect.ValueOf(stored).Elem(), reflect.ValueOf(object).Elem()
	if field := to.FieldByName("Status"); status || !field.IsValid() {
		if field.IsValid() {
			field.Set(from.FieldByName("Status"))
			return
		}
	}
	for _, part := range []string{"Spec", "Data", "Labels", "Annotations", "Finalizers"} {
		if field := to.FieldByName(part); field.IsValid() {
			field.Set(from.FieldByName(part))
		}
	}
}

// patch supports the patch types that our components send.
func (h handler) patch(c *call) (any, error) {
	if types.PatchType(c.contentType) == types.ApplyPatchType {
		return h.apply(c)
	}
	return h.store.Update(c.kind.Resource, c.key, "", h.by.name, func(stored client.Object) error {
		raw, err := json.Marshal(stored)
		if err != nil {
			return err
		}
		var patched []byte
		switch types.PatchType(c.contentType) {
		case types.StrategicMergePatchType:
			patched, err = strategicpatch.StrategicMergePatch(raw, c.body, &appsv1.Deployment{})
		case types.JSONPatchType:
			var patch jsonpatch.Patch
			if patch, err = jsonpatch.DecodePatch(c.body); err == nil {
				patched, err = patch.Apply(raw)
			}
		case types.MergePatchType:
			patched, err = jsonpatch.MergePatch(raw, c.body)
		default:
			err = fmt.Errorf("no such patch: %s", c.contentType)
		}
		if err != nil {
			return apierrors.NewInvalid(c.kind.GroupKind(), c.key.Name, nil)
		}
		object := c.kind.New()
		if err := json.Unmarshal(patched, object); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		if object.GetUID() != stored.GetUID() {
			return h.uidConflict(c)
		}
		if object.GetResourceVersion() != stored.GetResourceVersion() {
			return apierrors.NewConflict(h.store.group(c.kind.Resource), c.key.Name, errors.New("the object has been modified"))
		}
		replace(stored, object, c.subresource == "status")
		return nil
	})
}
