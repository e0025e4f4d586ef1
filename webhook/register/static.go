package register

import (
	"crypto/x509"
	"fmt"
	"path"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// StaticSuffix ends the name of each admission object that kube-apiserver reads from a file (KEP-5793). The API refuses such names, so that
// no client can change or delete the object.
const StaticSuffix = ".static.k8s.io"

// StaticConfigurationFile is the name of the AdmissionConfiguration among the files of StaticFiles.
const StaticConfigurationFile = "admission.yaml"

// StaticFile is a file from which kube-apiserver configures admission. Path is relative to the directory of all files.
type StaticFile struct {
	Path    string
	Content []byte
}

// StaticFiles returns the files by which kube-apiserver enforces admission objects without reading them from its
// storage. The manifests come first. The last file is the AdmissionConfiguration, which names their directories.
// directory is the absolute path at which kube-apiserver finds the files. existing is the AdmissionConfiguration that
// is in use, or nil; StaticFiles keeps its other settings.
//
// StaticFiles renames the objects. It returns an error for each manifest that kube-apiserver would not load, since a
// kube-apiserver with such a manifest does not start.
func StaticFiles(objects []any, directory string, existing []byte) ([]StaticFile, error) {
	var files []StaticFile
	configuration, err := readAdmissionConfiguration(existing)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		name, plugin, err := makeStatic(object)
		if err != nil {
			return nil, err
		}
		content, err := yaml.Marshal(object)
		if err != nil {
			return nil, err
		}
		if err := configuration.setManifests(plugin, path.Join(directory, plugin.folder)); err != nil {
			return nil, err
		}
		file := path.Join(plugin.folder, strings.TrimSuffix(name, StaticSuffix)+".yaml")
		if last := len(files) - 1; last >= 0 && files[last].Path == file {
			files[last].Content = append(append(files[last].Content, "---\n"...), content...)
			continue
		}
		files = append(files, StaticFile{Path: file, Content: content})
	}
	content, err := yaml.Marshal(configuration)
	if err != nil {
		return nil, err
	}
	return append(files, StaticFile{Path: StaticConfigurationFile, Content: content}), nil
}

// makeStatic renames an object, and the objects it refers to, to static names. It returns the new name and the plugin
// that loads the object.
func makeStatic(object any) (string, admissionPlugin, error) {
	switch o := object.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		o.Name = staticName(o.Name)
		for i := range o.Webhooks {
			if err := validateStatic(&o.Webhooks[i].ClientConfig, o.Webhooks[i].NamespaceSelector); err != nil {
				return "", admissionPlugin{}, err
			}
		}
		return o.Name, validatingWebhooks(), validateStaticName(o.Name)
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		o.Name = staticName(o.Name)
		for i := range o.Webhooks {
			if err := validateStatic(&o.Webhooks[i].ClientConfig, o.Webhooks[i].NamespaceSelector); err != nil {
				return "", admissionPlugin{}, err
			}
		}
		return o.Name, mutatingWebhooks(), validateStaticName(o.Name)
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		o.Name = staticName(o.Name)
		return o.Name, validatingPolicies(), validateStaticName(o.Name)
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		o.Name, o.Spec.PolicyName = staticName(o.Name), staticName(o.Spec.PolicyName)
		return o.Name, validatingPolicies(), validateStaticName(o.Name)
	}
	return "", admissionPlugin{}, fmt.Errorf("%T cannot be a static admission manifest", object)
}

func staticName(name string) string { return strings.TrimSuffix(name, StaticSuffix) + StaticSuffix }

func validateStaticName(name string) error {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("static manifest %q: not a valid name: %s", name, problems[0])
	}
	return nil
}

func validateStatic(client *admissionregistrationv1.WebhookClientConfig, namespaces *metav1.LabelSelector) error {
	if client.Service != nil {
		return fmt.Errorf("cannot use Service %s/%s: kube-apiserver accepts only URLs in static manifests; use --url with an address that the control "+
			"plane nodes reach", client.Service.Namespace, client.Service.Name)
	}
	if len(client.CABundle) > 0 && !x509.NewCertPool().AppendCertsFromPEM(client.CABundle) {
		return fmt.Errorf("the CA bundle of %s has no PEM certificate", *client.URL)
	}
	if _, err := metav1.LabelSelectorAsSelector(namespaces); err != nil {
		return fmt.Errorf("namespace selector: %w", err)
	}
	return nil
}
