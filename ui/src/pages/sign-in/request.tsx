import type { SignInStep } from '../../api/operations.ts';

/** What each step is for. */
export const MEANING: Readonly<Record<SignInStep['step'], string>> = {
  challenge: 'a request without a token, to hear what the server wants',
  'resource metadata': 'what the server says of itself and its authorization server (RFC 9728)',
  'issuer metadata': 'the endpoints of the authorization server (RFC 8414, OpenID)',
  registration: 'the gateway registers as a client (RFC 7591)',
  authorization: 'where the browser of the user is sent (PKCE, RFC 8707)',
  redirect: 'what the browser brings back',
  token: 'the code, or the old token, for a new token',
  'user code': 'a code that the user types in (RFC 8628)',
  revocation: 'the token is given back (RFC 7009)',
};

/** What was sent for a step, and what came back. */
export function Request({ of: { method, url, status, ms, request, answer, problem } }: { of: SignInStep }) {
  const sent = Object.entries(request);
  const facts = [...(status === null ? [] : [`HTTP ${status}`]), ...(ms === null ? [] : [`${ms} ms`])];
  return (
    <>
      {problem === null ? null : <p role="alert">{problem}</p>}
      <pre>
        {method === null ? '' : `${method} `}
        {url}
      </pre>
      {facts.length === 0 ? null : <p class="soft">{facts.join(', ')}</p>}
      {sent.length === 0 ? null : (
        <details>
          <summary>{sent.length} parameters</summary>
          <pre>{sent.map(([name, value]) => `${name} = ${value}`).join('\n')}</pre>
        </details>
      )}
      {answer === null ? null : (
        <details open={problem !== null}>
          <summary>Answer</summary>
          <pre>{typeof answer === 'string' ? answer : JSON.stringify(answer, null, 2)}</pre>
        </details>
      )}
    </>
  );
}
