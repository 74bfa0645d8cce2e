import { useSignal } from '@preact/signals';
import {
  beginLogin,
  type Credential,
  listCredentials,
  revokeCredential,
  type StartedLogin,
} from '../api/operations.ts';
import { Action } from '../parts/action.tsx';
import { Command, shellWord } from '../parts/command.tsx';
import { Empty, Failure, Loading } from '../parts/notes.tsx';
import { ago, useReading } from '../parts/reading.ts';
import { Status, type Tone } from '../parts/status.tsx';
import { act } from '../parts/toasts.tsx';
import { WebLink } from '../parts/web-link.tsx';
import { href } from '../router.ts';
import { serverList } from '../servers.ts';
import { signedIn } from '../sign-ins.ts';
import './operating.css';

const TONES: Readonly<Record<Credential['state'], Tone>> = {
  connected: 'good',
  expired: 'warn',
  login_required: 'warn',
  failed: 'bad',
};

export default function Connections() {
  const found = useReading(listCredentials, '', {
    events: ['login', 'login_ended', 'state', 'added', 'replaced', 'removed'],
  });
  if (found.error.value !== null && found.value.value === null)
    return <Failure what="The credentials could not be read" error={found.error.value} again={found.again} />;
  if (found.value.value === null) return <Loading what="credentials" />;
  const { credentials } = found.value.value;
  const asking = serverList.value.filter(
    ({ name, state }) => state === 'auth_required' && !credentials.some(({ server }) => server === name),
  );
  return (
    <>
      <h1>Connections</h1>
      <p>
        The credentials that the gateway holds for servers. <Command text="trunkline connections" />
      </p>
      {credentials.length + asking.length === 0 ? (
        <Empty title="No credentials for servers">
          <p>Servers behind a URL that ask for a sign-in are listed here.</p>
        </Empty>
      ) : null}
      {asking.map(({ name, reason }) => (
        <section key={name} class="panel" aria-label={`Connection to ${name}`}>
          <h2>
            {name} <Status tone="warn" text="asks for a sign-in" />
          </h2>
          <p>{reason}</p>
          <SignIn server={name} principal={null} label="Sign in" after={found.again} />
          <p>
            <a href={href(['sign-in', name])}>Step by step</a>
          </p>
        </section>
      ))}
      {credentials.map((credential) => (
        <Card key={`${credential.server} ${credential.principal}`} credential={credential} after={found.again} />
      ))}
    </>
  );
}

function Card({ credential, after }: { credential: Credential; after: () => void }) {
  const { server, principal, state, reason, issuer, clientId, scopes, expiresAt, refreshable, program, changedAt } =
    credential;
  const whose = principal === null ? '' : ` --principal ${shellWord(principal)}`;
  return (
    <section class="panel" aria-label={`Connection to ${server}`}>
      <h2>
        {server} <Status tone={TONES[state]} text={state.replace('_', ' ')} />
      </h2>
      <dl class="facts">
        <dt>Whose</dt>
        <dd>{principal ?? 'shared by all callers'}</dd>
        {reason === null ? null : (
          <>
            <dt>Why</dt>
            <dd>{reason}</dd>
          </>
        )}
        <dt>Issuer</dt>
        <dd>{issuer ?? (program ? 'a credential program' : 'unknown')}</dd>
        <dt>Client</dt>
        <dd>{clientId ?? 'unknown'}</dd>
        <dt>Scopes</dt>
        <dd>{scopes.length === 0 ? 'none' : scopes.map((scope) => <code key={scope}>{scope} </code>)}</dd>
        <dt>Ends</dt>
        <dd>
          {expiresAt === null ? 'never' : ago(expiresAt)}
          {refreshable ? ', renewed by the gateway' : ''}
        </dd>
        <dt>Since</dt>
        <dd>{changedAt === 0 ? 'unknown' : ago(changedAt)}</dd>
      </dl>
      <div class="actions">
        {program ? null : <SignIn server={server} principal={principal} label="Authorise again" after={after} />}
        {program ? null : (
          <Action
            label="Revoke"
            command={`trunkline logout ${shellWord(server)}${whose}`}
            careful
            run={() => revokeCredential({ name: server, principal: principal ?? undefined })}
            done={`The credential for ${server} is revoked`}
            after={after}
          />
        )}
      </div>
      <p>
        <a href={href(['sign-in', server])}>Step by step</a>
      </p>
    </section>
  );
}

interface SignInProps {
  readonly server: string;
  readonly principal: string | null;
  readonly label: string;
  readonly after: () => void;
}

/** Begins a sign-in: a link that the person opens, and what becomes of it. */
export function SignIn({ server, principal, label, after }: SignInProps) {
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
