import type { ComponentChildren } from 'preact';
import { counted } from '../../../../src/model/counted.ts';
import {
  getServer,
  removeServer,
  restartServer,
  resumeServer,
  type Server,
  suspendServer,
} from '../../api/operations.ts';
import { Action } from '../../parts/action.tsx';
import { Command, shellWord } from '../../parts/command.tsx';
import { LogView } from '../../parts/log-view.tsx';
import { NodeChoice } from '../../parts/node-choice.tsx';
import { Empty, Failure } from '../../parts/notes.tsx';
import { clock, useNow, useReading } from '../../parts/reading.ts';
import { SignInButton } from '../../parts/sign-in-button.tsx';
import { ServerStatus } from '../../parts/status.tsx';
import { Table } from '../../parts/table.tsx';
import { href, navigate, route } from '../../router.ts';
import { nodesOf, putServer, servers } from '../../servers.ts';
import { Connections } from './connections.tsx';
import { LastFailure } from './last-failure.tsx';
import { NotWellAt } from './not-well-at.tsx';
import { ServerConfiguration } from './server-configuration.tsx';

const FOLLOWED = { events: ['state', 'health', 'recovery', 'added', 'replaced'], calls: true, sessions: true };

/** All that is known of one server, as one node observes it, and what can be done with it. */
export function ServerDetail({ name }: { readonly name: string }) {
  const node = route.value.query.get('node') ?? undefined;
  const read = async (): Promise<Server> => {
    const found = await getServer({ name, node });
    if (node === undefined) putServer(found);
    return found;
  };
  const there = useReading(read, `${name} ${node}`, FOLLOWED);
  const listed = servers.value?.get(name);
  const server = (node === undefined ? null : there.value.value) ?? listed;
  if (server === undefined) {
    return (
      <Empty title={`There is no server ${name}`}>
        <p>
          It may have been removed meanwhile. <a href={href(['servers'])}>All servers</a>
        </p>
      </Empty>
    );
  }
  return (
    <>
      <p>
        <a href={href(['servers'])}>Servers</a>
      </p>
      <h1>
        {name} <ServerStatus server={server} />
        <NotWellAt server={server} />
      </h1>
      <NodeChoice among={nodesOf(name)} />
      {there.error.value === null ? null : (
        <Failure what={notRead(node)} error={there.error.value} again={there.again} />
      )}
      {server.reason === null ? null : <p class="note tone-warn">{server.reason}</p>}
      {server.desired?.refused == null ? null : (
        <p class="note tone-warn">It runs an earlier definition. The one in its file: {server.desired.refused}</p>
      )}
      {server.nextRetryAt === null ? null : <NextRetry at={server.nextRetryAt} />}
      <Actions server={server} />
      <LastFailure server={server} />
      <section class="panel" aria-label="Configuration">
        <h2>Configuration</h2>
        <Definition server={server} />
        <ServerConfiguration name={name} node={node} />
      </section>
      <section class="panel" aria-label="Connections">
        <h2>Processes and sessions</h2>
        <Connections server={server} read={there.value.value} />
      </section>
      {server.replicas.length === 0 ? null : <Replicas server={server} />}
      <section class="panel" aria-label="History">
        <h2>History</h2>
        <ol class="history">
          {[...server.history].reverse().map(({ from, to, reason, at }) => (
            <li key={`${at} ${from} ${to}`}>
              <time dateTime={new Date(at).toISOString()}>{clock(at)}</time> {from} → <strong>{to}</strong> {reason}
            </li>
          ))}
        </ol>
      </section>
      <section class="panel" aria-label="Log">
        <h2>
          Log <Command text={`trunkline logs -f ${shellWord(name)}`} />
        </h2>
        <LogView label="Log of the server" server={name} />
      </section>
    </>
  );
}

function notRead(node: string | undefined): string {
  if (node === undefined) return 'The status could not be read again';
  return `The status at node ${node} could not be read; another node's view is shown`;
}

function Replicas({ server: { replicas } }: { readonly server: Server }) {
  return (
    <section class="panel" aria-label="Replicas">
      <h2>Replicas</h2>
      <Table
        label="Replicas"
        rows={replicas}
        keyOf={({ replica }) => String(replica)}
        columns={[
          { id: 'replica', title: 'Replica', width: '5rem', cell: ({ replica }) => replica },
          { id: 'state', title: 'State', width: '7rem', cell: ({ state }) => state },
          { id: 'pid', title: 'Process', width: '5rem', align: 'end', cell: ({ pid }) => pid ?? '–' },
          { id: 'flight', title: 'In flight', width: '5rem', align: 'end', cell: ({ inFlight }) => inFlight },
          { id: 'bound', title: 'Sessions', width: '5rem', align: 'end', cell: ({ bound }) => bound },
          { id: 'reason', title: 'Reason', width: 'minmax(8rem, 2fr)', wideOnly: true, cell: ({ reason }) => reason },
        ]}
        empty={null}
      />
    </section>
  );
}

function Actions({ server }: { readonly server: Server }) {
  const { name, enabled, desired } = server;
  const word = shellWord(name);
  const removable = desired?.source === 'store' || desired?.source === 'temporary';
  return (
    <div class="actions">
      <Action
        label="Restart"
        command={`trunkline restart ${word}`}
        run={() => restartServer({ name })}
        done={({ state }) => `${name} was restarted and is ${state}`}
        after={putServer}
        disabled={!enabled}
      />
      {enabled ? (
        <Action
          label="Suspend"
          command={`trunkline suspend ${word}`}
          run={() => suspendServer({ name })}
          done={`${name} is suspended until it is resumed`}
          after={putServer}
          careful
        />
      ) : (
        <Action
          label="Resume"
          command={`trunkline resume ${word}`}
          run={() => resumeServer({ name })}
          done={`${name} starts again`}
          after={putServer}
        />
      )}
      {server.endpoint === null ? null : (
        <SignInButton server={name} principal={null} label="Sign in" after={() => {}} />
      )}
      {removable ? (
        <Action
          label="Remove"
          command={`trunkline remove ${word}`}
          run={() => removeServer({ name })}
          done={`${name} is removed`}
          after={() => navigate(['servers'])}
          careful
        />
      ) : desired?.source === 'file' ? (
        <span class="soft">{`Defined in ${desired.origin}; delete it there to remove the server.`}</span>
      ) : null}
    </div>
  );
}

function Definition({ server }: { readonly server: Server }) {
  const { command, args, env, headers, endpoint, desired, era, revision, transport, timeoutMs, start } = server;
  const facts: readonly (readonly [string, ComponentChildren])[] = [
    ['Defined in', desired?.origin ?? sourceText(desired?.source)],
    ['Transport', `${transport}${revision === null ? '' : `, ${revision} (${era})`}`],
    ...(command === null
      ? []
      : ([['Command', <code key="c">{[command, ...args].map(shellWord).join(' ')}</code>]] as const)),
    ...(endpoint === null ? [] : ([['URL', <code key="u">{endpoint}</code>]] as const)),
    ...Object.entries(env).map(([key, value]) => [`env ${key}`, <code key={key}>{value}</code>] as const),
    ...Object.entries(headers).map(([key, value]) => [`header ${key}`, <code key={key}>{value}</code>] as const),
    ['Starts', start === 'lazy' ? 'with its first call' : 'with the gateway'],
    ['Time limit of calls', `${timeoutMs / 1_000} s`],
    ['Started in', server.startedInMs === null ? 'not started' : `${Math.round(server.startedInMs)} ms`],
    ['Restarts', server.restarts],
    ...(server.consecutiveFailures === 0 ? [] : ([['Failed in a row', server.consecutiveFailures]] as const)),
    ...(server.phases === null ? [] : ([['Time of requests', server.phases.summary]] as const)),
    [
      'Listed last',
      <span key="t">
        {counted(server.toolCount, 'tool')}, {counted(server.promptCount, 'prompt')},{' '}
        {counted(server.resourceCount, 'resource')};{' '}
        <a href={href(['tools', server.name])}>what the gateway offers of them</a>
      </span>,
    ],
  ];
  return (
    <dl class="facts">
      {facts.map(([title, value]) => [<dt key={title}>{title}</dt>, <dd key={`${title} =`}>{value}</dd>])}
    </dl>
  );
}

function sourceText(source: string | undefined): string {
  return source === undefined ? 'nothing: it is no longer desired' : source === 'store' ? 'added at run time' : source;
}

function NextRetry({ at }: { readonly at: number }) {
  const seconds = Math.max(0, Math.ceil((at - useNow()) / 1_000));
  return <p role="timer">{seconds === 0 ? 'It is being tried again.' : `The next try is in ${seconds} s.`}</p>;
}
