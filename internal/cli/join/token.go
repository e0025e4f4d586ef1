package join

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// tokenTimeout is how long the token controller of the issuer may take to create a token.
const tokenTimeout = 30 * time.Second

// credential is a token and the Secret in the issuer's cluster whose deletion revokes it.
type credential struct {
	token  string
	secret corev1.Secret
	// expires is the expiration time that the API server granted; zero means never.
	expires time.Time
}

// issueToken creates a token. After an error it deletes what it created.
func (o *Options) issueToken(ctx context.Context, l *link) (*credential, error) {
	c := &credential{secret: corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, GenerateName: l.token, Labels: o.secretLabels(v1alpha1.JoinedByToken)},
	}}
	fill := o.requestToken
	if o.Lifetime == 0 {
		c.secret.Type = corev1.SecretTypeServiceAccountToken
		c.secret.Annotations = map[string]string{corev1.ServiceAccountNameKey: l.account}
		fill = o.awaitToken
	}
	if err := l.issuer.client.Create(ctx, &c.secret, client.FieldOwner(Owner)); err != nil {
		return nil, fmt.Errorf("create a Secret for a token in %s: %w", l.issuer.title, err)
	}
	if err := fill(ctx, l, c); err != nil {
		return nil, rollBack(ctx, l, c, err)
	}
	return c, nil
}

// awaitToken reads the token that the issuer's token controller writes to the Secret.
func (o *Options) awaitToken(ctx context.Context, l *link, c *credential) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, tokenTimeout, true, func(ctx context.Context) (bool, error) {
		err := l.issuer.client.Get(ctx, client.ObjectKeyFromObject(&c.secret), &c.secret)
		return len(c.secret.Data[corev1.ServiceAccountTokenKey]) > 0, err
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("%s did not write a token to Secret %s/%s within %s: check that its kube-controller-manager runs, or request tokens that expire "+
			"with --token-lifetime",
			l.issuer.title, c.secret.Namespace, c.secret.Name, tokenTimeout)
	}
	if err != nil {
		return fmt.Errorf("wait for the token in %s: %w", l.issuer.title, err)
	}
	c.token = string(c.secret.Data[corev1.ServiceAccountTokenKey])
	return nil
}

// requestToken requests a token that expires. The token is bound to the Secret, so that deleting the Secret revokes it earlier.
func (o *Options) requestToken(ctx context.Context, l *link, c *credential) error {
	seconds := int64(o.Lifetime / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: c.secret.Name, UID: c.secret.UID},
	}}
	granted, err := l.issuer.clientset.CoreV1().ServiceAccounts(o.Namespace).CreateToken(ctx, l.account, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("request a token from %s for ServiceAccount %s/%s: %w", l.issuer.title, o.Namespace, l.account, err)
	}
	c.token, c.expires = granted.Status.Token, granted.Status.ExpirationTimestamp.Time
	return nil
}

// rollBack withdraws a new token after an error and returns that error. It runs even if ctx was canceled.
func rollBack(ctx context.Context, l *link, c *credential, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokenTimeout)
	defer cancel()
	if err := l.deleteTokens(ctx, []corev1.Secret{c.secret}); err != nil {
		return fmt.Errorf("%w; cleanup also failed: %w", cause, err)
	}
	return cause
}
