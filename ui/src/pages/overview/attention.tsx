import { whyDown } from '../../../../src/model/why-down.ts';
import { type DefinitionConflict, type Instance, restartServer, type Server } from '../../api/operations.ts';
import { Action } from '../../parts/action.tsx';
import { Command, shellWord } from '../../parts/command.tsx';
import { NotAnswered, Unread } from '../../parts/notes.tsx';
import { useNow, useReading } from '../../parts/reading.ts';
import { Status } from '../../parts/status.tsx';
import { href } from '../../router.ts';
import { observed, putServer, serverList } from '../../servers.ts';
import { configurationWarnings, type GatewayProblem, gatewayProblems, readGateways } from './gateway-problems.ts';

const SLOW_START_MS = 10_000;
const DOWN: Readonly<Partial<Record<Server['state'], string>>> = {
  failed: 'has failed',
  unreachable: 'is unreachable',
  misconfigured: 'is misconfigured',
  defect: 'was stopped by a gateway defect',
};

/** What a person has to look at, the worst first, each with what can be done about it. */
export function Attention({ conflicts }: { readonly conflicts: readonly DefinitionConflict[] }) {
  const gateways = useReading(readGateways, '', {
    events: ['condition'],
    lists: ['configuration', 'nodes'],
  });
  const now = useNow();
  const servers = serverList.value;
  const { gateways: read = [], silent = [] } = gateways.value.value ?? {};
  const items = [
    ...gatewayProblems(read).map((problem) => <Note key={`${problem.title} ${problem.text}`} {...problem} />),
    ...conflicts.map(({ server }) => (
      <Note
        key={`conflict ${server}`}
        tone="warn"
        title={`${server} is defined differently at some nodes`}
        text="Its calls go to one side only."
        command="trunkline nodes"
        link={href(['cluster'])}
      />
    )),
    ...observed.value
      .filter(({ state }) => DOWN[state] !== undefined)
      .map((one) => <Down key={`${one.server} ${one.node}`} instance={one} now={now} />),
    ...observed.value
      .filter(({ state }) => state === 'auth_required')
      .map((one) => <Login key={`login ${one.server} ${one.node}`} instance={one} />),
    ...servers.filter(({ drift }) => drift.waiting > 0).map((server) => <Drifted key={server.name} server={server} />),
    ...observed.value
      .filter(
        ({ state, health }) =>
          state === 'degraded' || (health === 'unhealthy' && DOWN[state] === undefined && state !== 'auth_required'),
      )
      .map(({ server: name, node, reason }) => (
        <Note
          key={`unhealthy ${name} ${node}`}
          tone="warn"
          title={`${name} is unhealthy${at(node)}`}
          text={reason ?? ''}
          command={`trunkline status ${shellWord(name)}`}
          link={href(['servers', name], { node: node ?? '' })}
        />
      )),
    ...servers
      .filter(({ startedInMs }) => startedInMs !== null && startedInMs > SLOW_START_MS)
      .map(({ name, startedInMs }) => (
        <Note
          key={`slow ${name}`}
          tone="warn"
          title={`${name} takes ${(startedInMs! / 1000).toFixed(0)} s to start`}
          text="Its first call waits for that."
          command={`trunkline doctor ${shellWord(name)}`}
          link={href(['servers', name])}
        />
      )),
    ...configurationWarnings(read).map((problem) => <Note key={`${problem.title} ${problem.text}`} {...problem} />),
  ];
  return (
    <section aria-labelledby="attention">
      <h2 id="attention">Needs attention</h2>
      {items.length > 0 ? <ul class="attention">{items}</ul> : null}
      <NotAnswered nodes={silent} again={gateways.again} />
      {gateways.value.value === null ? (
        <Unread of={gateways} what="problems of gateways" />
      ) : items.length + silent.length === 0 ? (
        <p>
          <Status tone="good" text="Nothing needs attention." />
        </p>
      ) : null}
    </section>
  );
}

function Note({ tone, title, text, command, node, link }: GatewayProblem) {
  return (
    <li>
      <div>
        <Status tone={tone} text={title} />
        <p>{text}</p>
      </div>
      <div class="todo">
        <a href={link}>Look</a>
        <Command text={command} node={node} />
      </div>
    </li>
  );
}

/** Of a cluster: which node says so. */
function at(node: string | null): string {
  return node === null ? '' : ` at ${node}`;
}

function Down({ instance, now }: { readonly instance: Instance; readonly now: number }) {
  const { server: name, node, state, reason, nextRetryAt } = instance;
  const server = serverList.value.find((one) => one.name === name);
  // Another node may see it down for another reason.
  const why = whyDown({ ...(server?.reason === reason ? server : {}), name, reason });
  const wait = nextRetryAt === null ? null : Math.ceil((nextRetryAt - now) / 1000);
  const retry =
    wait === null
      ? 'It is not retried automatically.'
      : wait > 0
        ? `It is tried again in ${wait} s.`
        : 'It is being tried again.';
  return (
    <li>
      <div>
        <Status tone="bad" text={`${name} ${DOWN[state]}${at(node)}`} />
        <p>
          {sentence(why)} {retry}
        </p>
      </div>
      <div class="todo">
        <a href={href(['servers', name], { node: node ?? '' })}>Look</a>
        <Action
          label="Restart"
          command={`trunkline restart ${shellWord(name)}`}
          run={() => restartServer({ name })}
          done={({ state: after }) => `${name} ${DOWN[after] ?? `is ${after.replaceAll('_', ' ')}`}`}
          after={putServer}
        />
      </div>
    </li>
  );
}

function sentence(text: string): string {
  return text === '' || /[.!?]$/.test(text) ? text : `${text}.`;
}

function Login({ instance: { server: name, node, reason } }: { readonly instance: Instance }) {
  return (
    <li>
      <div>
        <Status tone="warn" text={`${name} needs a sign-in${at(node)}`} />
        <p>{reason}</p>
      </div>
      <div class="todo">
        <a href={href(['connections', name])}>Sign in</a>
        <Command text={`trunkline login ${shellWord(name)}`} />
      </div>
    </li>
  );
}

function Drifted({ server: { name, drift } }: { readonly server: Server }) {
  const { waiting, withheld } = drift;
  return (
    <li>
      <div>
        <Status tone="warn" text={`${name} has changed ${waiting} ${waiting === 1 ? 'definition' : 'definitions'}`} />
        <p>
          {withheld === 0
            ? 'Clients get the changed definitions.'
            : `${withheld} of them are withheld until they are approved.`}
        </p>
      </div>
      <div class="todo">
        <a href={href(['drift', name])}>Compare</a>
        <Command text={`trunkline drift ${shellWord(name)}`} />
      </div>
    </li>
  );
}
