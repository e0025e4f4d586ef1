package main

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/doctor"
)

// labeledKinds are the kinds whose labels and annotations the doctor checks, by resource.
func labeledKinds() map[schema.GroupVersionResource]doctor.Labeled {
	on := func(target v1alpha1.KeyTarget, kind string) doctor.Labeled {
		return doctor.Labeled{On: target, Kind: kind}
	}
	return map[schema.GroupVersionResource]doctor.Labeled{
		{Group: "apps", Version: "v1", Resource: "deployments"}:  on(v1alpha1.KeyOnWorkload, "Deployment"),
		{Group: "apps", Version: "v1", Resource: "statefulsets"}: on(v1alpha1.KeyOnWorkload, "StatefulSet"),
		{Group: "apps", Version: "v1", Resource: "replicasets"}:  on(v1alpha1.KeyOnWorkload, "ReplicaSet"),
		{Version: "v1", Resource: "replicationcontrollers"}:      on(v1alpha1.KeyOnWorkload, "ReplicationController"),
		{Version: "v1", Resource: "namespaces"}:                  on(v1alpha1.KeyOnNamespace, "Namespace"),
	}
}

// readLabeled returns the metadata of workloads of built-in kinds, and of namespaces, that a label selector selects.
func readLabeled(ctx context.Context, config *rest.Config, selector string) (all []doctor.Labeled, err error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	for resource, kind := range labeledKinds() {
		options := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
		for {
			page, err := client.Resource(resource).List(ctx, options)
			if err != nil {
				return nil, withRemedy(config, err)
			}
			for i := range page.Items {
				one := kind
				one.Object = &page.Items[i]
				all = append(all, one)
			}
			if options.Continue = page.Continue; options.Continue == "" {
				break
			}
		}
	}
	return all, nil
}
