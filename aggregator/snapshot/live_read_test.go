package snapshot

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// The API server compacts the version of the first page, and the client lists all pods at a later version. A pod of that page has ended meanwhile.
func TestLiveReadWhosePagesExpiredHasOnlyTheWholeList(t *testing.T) {
	page := func(version, next string, uids ...types.UID) *metav1.List {
		list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: version, Continue: next}}
		for _, uid := range uids {
			pod := &metav1.PartialObjectMetadata{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(uid), UID: uid, ResourceVersion: version},
			}
			list.Items = append(list.Items, runtime.RawExtension{Object: pod})
		}
		return list
	}
	calls := 0
	c := metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
	c.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		calls++
		switch calls {
		case 1:
			return true, page("5", "next", "ended", "alive"), nil
		case 2:
			return true, nil, apierrors.NewResourceExpired("the version was compacted")
		default:
			return true, page("9", "", "alive"), nil
		}
	})
	r := &LiveReader{Metadata: c, Lists: prometheus.NewCounter(prometheus.CounterOpts{})}
	read, err := r.ListPods(t.Context(), "shop", "")
	if err != nil || read.Version != 9 || !read.has(quota.HashUID("alive")) || read.has(quota.HashUID("ended")) {
		t.Errorf("after %d requests the read is %+v, %v, want version 9 and only the pod that is alive", calls, read, err)
	}
}
