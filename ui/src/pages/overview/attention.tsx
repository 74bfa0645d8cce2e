import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { type Gateway, type Instance, listNodes, listTools, restartServer, type Server } from '../../api/operations.ts';
import { onLive } from '../../live.ts';
import { Action } from '../../parts/action.tsx';
import { Command, shellWord } from '../../parts/command.tsx';
import { Status, type Tone } from '../../parts/status.tsx';
import { href } from '../../router.ts';
import { gateway, observed, putServer, serverList } from '../../servers.ts';

/** Cursor refuses tools whose name, with that of the server, is longer. */
const MAX_NAME = 60;
const SLOW_START_MS = 10_000;
const DOWN: Readonly<Partial<Record<Server['state'], string>>> = {
  failed: 'has failed',
  unreachable: 'is unreachable',
  misconfigured: 'is misconfigured',
  defect: 'has met a defect of the gateway',
};

/** Of the gateway itself; what is not here shows in another way. */
const CONDITIONS: Readonly<Partial<Record<Gateway['conditions'][number]['name'], string>>> = {
  node_lost: 'A node is gone',
  disk_not_writable: 'The disk cannot be written',
  memory_short: 'Memory is short',
  processes_near_limit: 'There are nearly as many processes as allowed',
  sessions_near_limit: 'There are nearly as many sessions as allowed',
};

/** What a person has to look at, the worst first, each with what can be done about it. */
export function Attention() {
  const longNames = useSignal<ReadonlyMap<string, number>>(new Map());
  const conflicts = useSignal<readonly string[]>([]);
  const now = useSignal(Date.now());
  useEffect(() => {
    const read = (): void => {
      void listTools().then(
        ({ tools }) => (longNames.value = countLong(tools)),
        () => {},
      );
      void listNodes().then(
        (answer) => (conflicts.value = answer.conflicts.map(({ server }) => server)),
        () => {},
      );
    };
    const timer = setInterval(() => (now.value = Date.now()), 1_000);
    const stops = [
      onLive('hello', read),
      onLive('events', ({ event }) => {
        if (event.type !== 'state' || event.to === 'running' || event.to === 'connected') read();
      }),
    ];
    read();
    return () => {
      clearInterval(timer);
      for (const stop of stops) stop();
    };
  }, []);
  const { configProblem = null, desiredProblems = [], degraded = [], conditions = [] } = gateway.value ?? {};
  const servers = serverList.value;
  const items = [
    ...(configProblem === null
      ? []
      : [
          <Note
            key="config"
            tone="bad"
            title="The configuration file has a mistake"
            text={configProblem}
            more="The parts with a mistake stay as they were before."
            command="trunkline check"
            page="configuration"
          />,
        ]),
    ...degraded.map((text) => (
      <Note
        key={text}
        tone="warn"
        title="The cluster is degraded"
        text={text}
        command="trunkline nodes"
        page="cluster"
      />
    )),
    ...conditions.flatMap(({ name, server, reason }) => {
      const title = server === null ? CONDITIONS[name] : undefined;
      if (title === undefined) return [];
      return <Note key={name} tone="bad" title={title} text={reason} command="trunkline status" page="cluster" />;
    }),
    ...conflicts.value.map((server) => (
      <Note
        key={`conflict ${server}`}
        tone="warn"
        title={`${server} is defined differently at some nodes`}
        text="Its calls go to one side only."
        command="trunkline nodes"
        page="cluster"
      />
    )),
    ...observed.value
      .filter(({ state }) => DOWN[state] !== undefined)
      .map((one) => <Down key={`${one.server} ${one.node}`} instance={one} now={now.value} />),
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
          page="servers"
          server={name}
        />
      )),
    ...[...longNames.value].map(([name, count]) => (
      <Note
        key={`names ${name}`}
        tone="warn"
        title={`${count} tools of ${name} have names that some clients refuse`}
        text={`They are longer than ${MAX_NAME} characters.`}
        command={`trunkline tools ${shellWord(name)}`}
        page="tools"
        server={name}
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
          page="servers"
          server={name}
        />
      )),
    ...desiredProblems.map((text) => (
      <Note
        key={text}
        tone="warn"
        title="Something that should run does not"
        text={text}
        command="trunkline status"
        page="configuration"
      />
    )),
  ];
  return (
    <section aria-labelledby="attention">
      <h2 id="attention">Needs attention</h2>
      {items.length === 0 ? (
        <p>
          <Status tone="good" text="Nothing: all servers do what they should." />
        </p>
      ) : (
        <ul class="attention">{items}</ul>
      )}
    </section>
  );
}

interface NoteProps {
  readonly tone: Tone;
  readonly title: string;
  readonly text: string;
  readonly more?: string;
  readonly command: string;
  readonly page: string;
  readonly server?: string;
}

function Note({ tone, title, text, more = '', command, page, server }: NoteProps) {
  return (
    <li>
      <div>
        <Status tone={tone} text={title} />
        <p>
          {text} {more}
        </p>
      </div>
      <div class="todo">
        <a href={href(server === undefined ? [page] : [page, server])}>Look</a>
        <Command text={command} />
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
  const wait = nextRetryAt === null ? null : Math.ceil((nextRetryAt - now) / 1000);
  const retry =
    wait === null
      ? 'It is not tried again by itself.'
      : wait > 0
        ? `It is tried again in ${wait} s.`
        : 'It is being tried again.';
  return (
    <li>
      <div>
        <Status tone="bad" text={`${name} ${DOWN[state]}${at(node)}`} />
        <p>
          {sentence(reason)} {retry}
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

function sentence(text: string | null): string {
  return text === null || /[.!?]$/.test(text) ? (text ?? '') : `${text}.`;
}

function Login({ instance: { server: name, node, reason } }: { readonly instance: Instance }) {
  return (
    <li>
      <div>
        <Status tone="warn" text={`${name} needs a login${at(node)}`} />
        <p>{reason}</p>
      </div>
      <div class="todo">
        <a href={href(['connections', name])}>Log in</a>
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
            ? 'Clients get them as the server says them now.'
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

function countLong(
  tools: readonly { readonly exposedName: string; readonly server: string }[],
): ReadonlyMap<string, number> {
  const long = new Map<string, number>();
  for (const { exposedName, server } of tools) {
    if (exposedName.length > MAX_NAME) long.set(server, (long.get(server) ?? 0) + 1);
  }
  return long;
}
