package inventory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// entry is a cluster in an inventory.
type entry struct {
	// source identifies the entry, as KIND/NAMESPACE/NAME.
	source string
	object client.Object
	// kubeconfig gives access to the cluster. It is valid only if err is nil.
	kubeconfig []byte
	// err is the reason why the entry has no usable kubeconfig.
	err error
}

// inventory lists entries of one kind.
type inventory interface {
	// entriesOf returns the entries whose Cell has that name, from a cache.
	entriesOf(ctx context.Context, cell string) ([]entry, error)
}

func newEntry(kind string, object client.Object, kubeconfig []byte, err error) entry {
	if err == nil {
		err = clusters.ValidateKubeconfig(kubeconfig)
	}
	return entry{source: kind + "/" + object.GetNamespace() + "/" + object.GetName(), object: object, kubeconfig: kubeconfig, err: err}
}

// argoCDInventory has the cluster Secrets of Argo CD.
type argoCDInventory struct{ reader client.Reader }

func (i argoCDInventory) entriesOf(ctx context.Context, cell string) (entries []entry, err error) {
	secrets := &corev1.SecretList{}
	if err := i.reader.List(ctx, secrets, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list cluster Secrets of Argo CD: %w", err)
	}
	for n := range secrets.Items {
		if secret := &secrets.Items[n]; argoCDCellName(secret) == cell {
			kubeconfig, err := argoCDKubeconfig(cell, secret.Data)
			entries = append(entries, newEntry("Secret", secret.DeepCopy(), kubeconfig, err))
		}
	}
	return entries, nil
}

// argoCDCellName returns the name of an entry's Cell, which can be invalid. Argo CD, too, shows the server of a cluster without a name.
func argoCDCellName(secret *corev1.Secret) string {
	return cmp.Or(secret.Annotations[v1alpha1.AnnotationCellName], string(secret.Data["name"]), string(secret.Data["server"]))
}

// argoCDConfig is the config of a cluster Secret, as far as it determines the credentials.
type argoCDConfig struct {
	Username        string `json:"username"`
	BearerToken     string `json:"bearerToken"`
	ProxyURL        string `json:"proxyUrl"`
	TLSClientConfig struct {
		Insecure   bool   `json:"insecure"`
		ServerName string `json:"serverName"`
		CAData     []byte `json:"caData"`
		CertData   []byte `json:"certData"`
		KeyData    []byte `json:"keyData"`
	} `json:"tlsClientConfig"`
	AWSAuthConfig      *struct{} `json:"awsAuthConfig"`
	ExecProviderConfig *struct{} `json:"execProviderConfig"`
}

// argoCDKubeconfig translates the content of a cluster Secret.
func argoCDKubeconfig(name string, data map[string][]byte) ([]byte, error) {
	c := argoCDConfig{}
	if err := json.Unmarshal(data["config"], &c); err != nil {
		return nil, errors.New("its config is not valid JSON") // the error could quote credentials
	}
	tls := c.TLSClientConfig
	switch {
	case len(data["server"]) == 0:
		return nil, errors.New("it has no server")
	case c.AWSAuthConfig != nil || c.ExecProviderConfig != nil:
		return nil, errors.New("it gets its credentials from a program (awsAuthConfig, execProviderConfig), which Breakwater does not run: " +
			"join the cluster with breakwater join")
	case c.BearerToken == "" && (len(tls.CertData) == 0 || len(tls.KeyData) == 0):
		kind := "no bearerToken and no client certificate"
		if c.Username != "" {
			kind = "only a password, which API servers do not accept"
		}
		return nil, fmt.Errorf("it has %s: join the cluster with breakwater join", kind)
	}
	return clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: string(data["server"]), CertificateAuthorityData: tls.CAData, TLSServerName: tls.ServerName,
			InsecureSkipTLSVerify: tls.Insecure, ProxyURL: c.ProxyURL,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: c.BearerToken, ClientCertificateData: tls.CertData, ClientKeyData: tls.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
}

// The Secret of a ClusterProfile, by the convention of the Cluster Inventory API and its libraries: it is in the namespace of the profile,
// has these labels, and a kubeconfig under this key.
const (
	labelConsumer = "x-k8s.io/cluster-inventory-consumer"
	labelProfile  = "x-k8s.io/cluster-profile"
	keyConfig     = "Config"

	consumer = "breakwater"
)

func clusterProfileKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Kind: "ClusterProfile"}
}

// newClusterProfile returns an empty ClusterProfile. Only its metadata is read: the Secret has the rest.
func newClusterProfile() *metav1.PartialObjectMetadata {
	profile := &metav1.PartialObjectMetadata{}
	profile.SetGroupVersionKind(clusterProfileKind())
	return profile
}

// clusterProfileInventory has ClusterProfiles.
type clusterProfileInventory struct{ reader client.Reader }

func (i clusterProfileInventory) entriesOf(ctx context.Context, cell string) (entries []entry, err error) {
	profiles := &metav1.PartialObjectMetadataList{}
	profiles.SetGroupVersionKind(clusterProfileKind())
	if err := i.reader.List(ctx, profiles); err != nil {
		return nil, fmt.Errorf("list ClusterProfiles: %w", err)
	}
	for n := range profiles.Items {
		profile := &profiles.Items[n]
		if clusterProfileCellName(profile) != cell {
			continue
		}
		secrets := &corev1.SecretList{}
		if err := i.reader.List(ctx, secrets, client.MatchingLabels{labelProfile: profile.Name}); err != nil {
			return nil, fmt.Errorf("list Secrets of ClusterProfile %s: %w", profile.Name, err)
		}
		profile.SetGroupVersionKind(clusterProfileKind())
		kubeconfig, err := clusterProfileKubeconfig(profile.Name, secrets.Items)
		entries = append(entries, newEntry(clusterProfileKind().Kind, profile, kubeconfig, err))
	}
	return entries, nil
}

func clusterProfileCellName(profile *metav1.PartialObjectMetadata) string {
	return cmp.Or(profile.Annotations[v1alpha1.AnnotationCellName], profile.Name)
}

// clusterProfileKubeconfig returns the kubeconfig in the one Secret of a ClusterProfile.
func clusterProfileKubeconfig(profile string, secrets []corev1.Secret) ([]byte, error) {
	if len(secrets) != 1 {
		names := make([]string, len(secrets))
		for n := range secrets {
			names[n] = secrets[n].Name
		}
		return nil, fmt.Errorf("its namespace has %d Secrets with the labels %s=%s and %s=%s, and needs one (%s). Breakwater does not run the programs of its credential providers",
			len(secrets), labelConsumer, consumer, labelProfile, profile, cmp.Or(strings.Join(names, ", "), "none"))
	}
	if len(secrets[0].Data[keyConfig]) == 0 {
		return nil, fmt.Errorf("its Secret %s has no kubeconfig under the key %s", secrets[0].Name, keyConfig)
	}
	return secrets[0].Data[keyConfig], nil
}
