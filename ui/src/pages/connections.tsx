import { type Credential, listCredentials, revokeCredential } from '../api/operations.ts';
import { Action } from '../parts/action.tsx';
import { Command, shellWord } from '../parts/command.tsx';
import { Empty, Unread } from '../parts/notes.tsx';
import { ago, useReading } from '../parts/reading.ts';
import { SignInButton } from '../parts/sign-in-button.tsx';
import { Status, type Tone } from '../parts/status.tsx';
import { href } from '../router.ts';
import { serverList } from '../servers.ts';
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
  if (found.value.value === null) return <Unread of={found} what="credentials" />;
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
          <SignInButton server={name} principal={null} label="Sign in" after={found.again} />
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
        {program ? null : <SignInButton server={server} principal={principal} label="Sign in again" after={after} />}
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
