package apiserver

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func metav1Now() metav1.Time { return metav1.NewTime(time.Now().Truncate(time.Second)) }

func clone(object client.Object) client.Object {
	return object.DeepCopyObject().(client.Object) // a deep copy has the type of its original
}

func same(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }
