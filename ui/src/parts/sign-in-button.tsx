import { useSignal } from '@preact/signals';
import { beginLogin, type StartedLogin } from '../api/operations.ts';
import { Action } from './action.tsx';
import { shellWord } from './command.tsx';
import { signedIn } from './sign-ins.ts';
import { act } from './toasts.tsx';
import { WebLink } from './web-link.tsx';

interface SignInButtonProps {
  readonly server: string;
  readonly principal: string | null;
  readonly label: string;
  readonly after: () => void;
}

/** Begins a sign-in: a link that the person opens, and what becomes of it. */
export function SignInButton({ server, principal, label, after }: SignInButtonProps) {
  const url = useSignal<{ readonly url: string; readonly userCode: string | null } | null>(null);
  const whose = principal === null ? '' : ` --principal ${shellWord(principal)}`;
  const begin = async () => {
    const base = { principal };
    try {
      return await beginLogin({ name: server, body: base });
    } catch (error) {
      // Without an address that browsers reach, a code is typed in at the authorization server.
      if ((error as { code?: string }).code !== 'public_url_missing') throw error;
      return beginLogin({ name: server, body: { ...base, redirectUri: null } });
    }
  };
  const wait = async (login: StartedLogin): Promise<void> => {
    await act(`Signed in to ${server}`, () => signedIn(login, principal));
    url.value = null;
    after();
  };
  return (
    <>
      <Action
        label={label}
        command={`trunkline login ${shellWord(server)}${whose}`}
        run={begin}
        done="Open the link to sign in"
        after={(login) => {
          url.value = login;
          after();
          void wait(login);
        }}
      />
      {url.value === null ? null : (
        <p role="status">
          <WebLink url={url.value.url}>Sign in to {server}</WebLink>
          {url.value.userCode === null ? '' : ' with the code '}
          {url.value.userCode === null ? null : <code>{url.value.userCode}</code>} within ten minutes.
        </p>
      )}
    </>
  );
}
