package clusters

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// JoinManager is the field manager, and the value of app.kubernetes.io/managed-by, of the Secrets that breakwater join creates. A renewal writes as the
// same manager: a Secret whose kubeconfig belongs to another manager, such as a GitOps controller that would revert it, is not renewed.
const JoinManager = "breakwater-join"

// TokenRenewer renews the token of a kubeconfig in a Secret before it expires, by the TokenRequest API of the cluster to which the kubeconfig leads. The
// new token is bound to the same Secret there as the former one, whose deletion so still revokes it. The former token stays valid until it expires.
//
// Several processes may renew one token: each writes only if the Secret still has the version that it read.
type TokenRenewer struct {
	// Home is the cluster of the Secret, Live reads from its API server.
	Home client.Client
	Live client.Reader
	// Component is the name of the component in the user agent.
	Component string
	Now       func() time.Time
	// Spread, from 0 to 1, is how late the process renews, so that several rarely do at a time; see Due.
	Spread float64
}

// OwnTokenRules are the rules that the account of a kubeconfig needs in its namespace, to renew its token. They permit tokens of that account only.
func OwnTokenRules(account string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{account}, Verbs: []string{"create"},
	}}
}

// tokenClaims are the claims of a token that the TokenRequest API issued. They are informational: the API server decides.
type tokenClaims struct {
	Issued  int64 `json:"iat"`
	Expires int64 `json:"exp"`
	Bound   struct {
		Namespace string `json:"namespace"`
		Account   struct {
			Name string `json:"name"`
		} `json:"serviceaccount"`
		Secret *struct {
			Name string `json:"name"`
			UID  string `json:"uid"`
		} `json:"secret"`
	} `json:"kubernetes.io"`
}

func claimsOf(token string) (tokenClaims, error) {
	claims, parts := tokenClaims{}, strings.Split(token, ".")
	if len(parts) != 3 {
		return claims, errors.New("its token is not a JWT")
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(raw, &claims)
	}
	if err != nil {
		return claims, errors.New("its token has no readable claims")
	}
	return claims, nil
}

func (c tokenClaims) user() string {
	return "system:serviceaccount:" + c.Bound.Namespace + ":" + c.Bound.Account.Name
}

// lifetime is what was granted, and so what is requested again.
func (c tokenClaims) lifetime() time.Duration { return time.Duration(c.Expires-c.Issued) * time.Second }

// due returns when a token is renewed: when from two thirds to three quarters of its lifetime have passed.
func (c tokenClaims) due(spread float64) time.Time {
	return time.Unix(c.Issued, 0).Add(time.Duration(float64(c.lifetime()) * (2.0/3 + spread/12)))
}

// Renewal is the state of the token of a kubeconfig.
type Renewal struct {
	// Expires is when the token expires; zero if it does not, and then nothing is to be renewed.
	Expires time.Time
	// Renewed reports that the Secret has a new token, which expires at Expires.
	Renewed bool
	// Err is why the token cannot be renewed, or was not although it was due. The text is for users.
	Err error
}

// Renew renews the token of a kubeconfig if that is due, and otherwise checks whether it will be possible. It never replaces a token by one that
// the cluster does not accept.
func (r *TokenRenewer) Renew(ctx context.Context, ref v1alpha1.KubeconfigSecretRef) Renewal {
	secret := &corev1.Secret{}
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, secret); err != nil {
		return Renewal{Err: fmt.Errorf("read Secret %s/%s: %w", ref.Namespace, ref.Name, err)}
	}
	key := cmp.Or(ref.Key, "kubeconfig")
	config, err := parseKubeconfig(secret.Data[key], r.Component)
	if err == nil {
		err = exposureOf(config).allowedBy(&ref)
	}
	if err != nil {
		return Renewal{Err: err}
	}
	claims, err := claimsOf(config.BearerToken)
	if config.BearerToken == "" || err == nil && claims.Expires == 0 {
		return Renewal{} // a certificate, or a token that does not expire
	}
	renewal := Renewal{Expires: time.Unix(claims.Expires, 0)}
	switch {
	case err != nil:
		return Renewal{Err: err}
	case claims.Bound.Account.Name == "" || claims.Issued == 0:
		renewal.Err = errors.New("its token is not one of a ServiceAccount")
		return renewal
	case r.Now().Before(claims.due(r.Spread)):
		renewal.Err = r.check(ctx, secret, key, config, claims)
		return renewal
	}
	expires, err := r.replace(ctx, secret, key, config, claims)
	if apierrors.IsConflict(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		return renewal // another process has written the Secret meanwhile, and probably renewed the token
	}
	if err != nil {
		renewal.Err = err
		return renewal
	}
	return Renewal{Expires: expires, Renewed: true}
}

// check returns why a renewal would fail, as far as that can be known before.
func (r *TokenRenewer) check(ctx context.Context, secret *corev1.Secret, key string, config *rest.Config, claims tokenClaims) error {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	own := &authorizationv1.ResourceAttributes{
		Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: claims.Bound.Namespace, Name: claims.Bound.Account.Name,
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: own}}
	if review, err = clientset.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("check whether %s may request tokens: %w", claims.user(), err)
	}
	if !review.Status.Allowed {
		return fmt.Errorf("%s may not request tokens for itself at %s: run breakwater join again, which grants that", claims.user(), config.Host)
	}
	another := append(bytes.Clone(secret.Data[key]), '\n') // the same value would conflict with no other manager
	return explainWrite(secret, r.write(ctx, secret, key, another, client.DryRunAll))
}

// replace puts a new token into the Secret, after a request with it has succeeded.
func (r *TokenRenewer) replace(ctx context.Context, secret *corev1.Secret, key string, config *rest.Config, claims tokenClaims) (time.Time, error) {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return time.Time{}, err
	}
	seconds := int64(claims.lifetime() / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if bound := claims.Bound.Secret; bound != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: bound.Name, UID: types.UID(bound.UID)}
	}
	granted, err := clientset.CoreV1().ServiceAccounts(claims.Bound.Namespace).CreateToken(ctx, claims.Bound.Account.Name, request, metav1.CreateOptions{})
	if err != nil {
		return time.Time{}, fmt.Errorf("request a token of %s from %s: %w", claims.user(), config.Host, err)
	}
	kubeconfig, err := withToken(secret.Data[key], granted.Status.Token)
	if err != nil {
		return time.Time{}, err
	}
	if err := r.try(ctx, kubeconfig, claims.user()); err != nil {
		return time.Time{}, fmt.Errorf("try the new token of %s at %s: %w", claims.user(), config.Host, err)
	}
	return granted.Status.ExpirationTimestamp.Time, explainWrite(secret, r.write(ctx, secret, key, kubeconfig))
}

// try requests with a kubeconfig who its user is.
func (r *TokenRenewer) try(ctx context.Context, kubeconfig []byte, want string) error {
	config, err := parseKubeconfig(kubeconfig, r.Component)
	if err != nil {
		return err
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	review, err := clientset.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err == nil && review.Status.UserInfo.Username != want {
		err = fmt.Errorf("it belongs to %s", review.Status.UserInfo.Username)
	}
	return err
}

// write replaces the kubeconfig of a Secret that still has the version that was read. It keeps what else JoinManager has applied: the type and the
// labels.
func (r *TokenRenewer) write(ctx context.Context, read *corev1.Secret, key string, kubeconfig []byte, options ...client.ApplyOption) error {
	labels := map[string]string{}
	for _, name := range []string{"app.kubernetes.io/managed-by", v1alpha1.LabelJoinedCell, v1alpha1.LabelJoinedCore, v1alpha1.LabelJoinedBy} {
		if value, ok := read.Labels[name]; ok {
			labels[name] = value
		}
	}
	apply := corev1apply.Secret(read.Name, read.Namespace).WithUID(read.UID).WithResourceVersion(read.ResourceVersion).WithLabels(labels).
		WithType(read.Type).WithData(map[string][]byte{key: kubeconfig})
	return r.Home.Apply(ctx, apply, append(options, client.FieldOwner(JoinManager))...)
}

// explainWrite explains why a Secret could not be written. A conflict of versions stays one.
func explainWrite(secret *corev1.Secret, err error) error {
	name := secret.Namespace + "/" + secret.Name
	switch {
	case err == nil:
		return nil
	case apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict):
		return fmt.Errorf("another client manages the kubeconfig in Secret %s, and would revert a new token: renew it there: %w", name, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the component may not patch Secret %s: name the Secret in the chart (remoteCells or cores): %w", name, err)
	}
	return fmt.Errorf("write Secret %s: %w", name, err)
}

// withToken returns a kubeconfig whose current user has another token.
func withToken(raw []byte, token string) ([]byte, error) {
	file, err := clientcmd.Load(raw)
	if err != nil {
		return nil, err
	}
	current := file.Contexts[file.CurrentContext]
	if current == nil || file.AuthInfos[current.AuthInfo] == nil {
		return nil, errors.New("the kubeconfig has no current user")
	}
	file.AuthInfos[current.AuthInfo].Token = token
	written, err := clientcmd.Write(*file)
	if err == nil && bytes.Equal(written, raw) {
		err = errors.New("the API server returned the same token")
	}
	return written, err
}
