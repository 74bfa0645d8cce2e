import { useComputed } from '@preact/signals';
import { UNNAMED_CLIENT } from '../../../src/model/call-labels.ts';
import {
  approveDefinitions,
  blockDefinitions,
  type Call,
  type DriftReport,
  getDriftHistory,
  listDrift,
  type WaitingDefinition,
} from '../api/operations.ts';
import { Action } from '../parts/action.tsx';
import { useCalls } from '../parts/calls.ts';
import { pretty } from '../parts/code.tsx';
import { shellWord } from '../parts/command.tsx';
import { Empty, Failure, NotAnswered, Unread } from '../parts/notes.tsx';
import { Paged } from '../parts/paged.tsx';
import { ago, clock, useReading } from '../parts/reading.ts';
import { Status, type Tone } from '../parts/status.tsx';
import { href, route } from '../router.ts';
import './operating.css';

const TONES: Readonly<Record<WaitingDefinition['severity'], Tone>> = {
  breaking: 'bad',
  behaviour: 'warn',
  wording: 'busy',
};
const OFFERED: Readonly<Record<WaitingDefinition['offered'], string>> = {
  present: 'clients are offered what the server says now',
  approved: 'clients are offered what was approved',
  nothing: 'clients are offered nothing under this name',
};

export default function Drift() {
  const drift = useReading(listDrift, '', { lists: ['drift'], events: ['added', 'replaced', 'removed', 'state'] });
  const chosen = route.value.rest[0];
  if (drift.value.value === null) return <Unread of={drift} what="drift" />;
  const { servers } = drift.value.value;
  const open = servers.filter(
    ({ waiting, findings, problem }) => waiting.length + findings.length > 0 || problem !== null,
  );
  const shown = chosen === undefined ? open : servers.filter(({ server }) => server === chosen);
  const settled = servers.filter((one) => !open.includes(one));
  return (
    <>
      <h1>{chosen === undefined ? 'Drift' : `Drift of ${chosen}`}</h1>
      {chosen === undefined ? null : (
        <p>
          <a href={href(['drift'])}>All servers</a>
        </p>
      )}
      {shown.length === 0 ? (
        <Empty title={chosen === undefined ? 'Nothing waits for a decision' : `There is no server ${chosen}`}>
          <p>Definitions are pinned at first use; what differs from that is shown here, word by word.</p>
        </Empty>
      ) : null}
      {shown.map((report) => (
        <Report key={report.server} report={report} after={drift.again} />
      ))}
      {chosen === undefined && settled.length > 0 ? (
        <section class="panel">
          <h2>As approved</h2>
          <ul class="plain-list">
            {settled.map(({ server, pinned, policy, listed }) => (
              <li key={server}>
                <a href={href(['drift', server])}>{server}</a>{' '}
                <span class="soft">
                  {policy === 'off' ? 'not watched' : `${pinned} pinned, ${policy}`}
                  {listed ? '' : ', not listed yet'}
                </span>
              </li>
            ))}
          </ul>
        </section>
      ) : null}
      {chosen === undefined ? null : <History server={chosen} />}
    </>
  );
}

function Report({ report, after }: { report: DriftReport; after: () => void }) {
  const { server, policy, waiting, findings, problem, pinned, trustedAt } = report;
  return (
    <section class="panel" aria-label={`Drift of ${server}`}>
      <h2>
        <a href={href(['drift', server])}>{server}</a> <span class="badge">{policy}</span>
      </h2>
      <p class="soft">
        {pinned} definitions pinned{trustedAt === null ? '' : `, trusted ${ago(trustedAt)}`}
      </p>
      {problem === null ? null : <Failure what="Pins are not saved" error={new Error(problem)} />}
      {waiting.length > 1 ? (
        <div class="actions">
          <Action
            label={`Approve all ${waiting.length}`}
            command={`trunkline drift approve ${shellWord(server)} --all`}
            careful
            run={() => approveDefinitions({ name: server, body: { definitions: waiting.map(seen) } })}
            done={`Approved ${waiting.length} definitions of ${server}`}
            after={after}
          />
        </div>
      ) : null}
      {waiting.length === 0 ? null : <AllWaiting server={server} waiting={waiting} after={after} />}
      {findings.length === 0 ? null : (
        <>
          <h3>Suspicious texts</h3>
          <Paged
            what="findings"
            rows={findings}
            keyOf={({ list, key, kind, pointer }) => `${list} ${key} ${kind} ${pointer}`}
            show={({ list, key, kind, grave, pointer, excerpt }) => (
              <p>
                <Status tone={grave ? 'bad' : 'warn'} text={kind.replaceAll('_', ' ')} /> {list} <code>{key}</code>{' '}
                <code>{pointer}</code> <q>{excerpt}</q>
              </p>
            )}
          />
        </>
      )}
    </section>
  );
}

/** As many as a node keeps. */
const KEPT_CALLS = 10_000;

type Users = ReadonlyMap<string, readonly Call[]>;

function AllWaiting({ server, waiting, after }: Pick<DriftReport, 'server' | 'waiting'> & { after: () => void }) {
  const { calls, silent, again } = useCalls(`server:"${server}" method:tools/call`, KEPT_CALLS);
  const byTool = useComputed(() => calls.value && Map.groupBy(calls.value, ({ name }) => name ?? ''));
  return (
    <>
      <NotAnswered nodes={silent.value} again={again} />
      <Paged
        what="definitions"
        rows={waiting}
        keyOf={(one) => `${one.list} ${one.key} ${one.digest}`}
        show={(one) => <Waiting server={server} one={one} users={byTool.value} after={after} />}
      />
    </>
  );
}

function seen({ list, key, digest }: WaitingDefinition) {
  return { list, key, digest };
}

interface WaitingProps {
  readonly server: string;
  readonly one: WaitingDefinition;
  /** The calls of each tool; null until they were read. */
  readonly users: Users | null;
  readonly after: () => void;
}

function Waiting({ server, one, users, after }: WaitingProps) {
  const { list, key, change, severity, reasons, offered, fields, digest, before } = one;
  const name = key === '' ? 'instructions' : key;
  const word = shellWord(key === '' ? 'instructions' : list === 'tools' ? key : `${list}/${key}`);
  return (
    <article class="waiting" aria-label={`${name}, ${change}`}>
      <h3>
        <code>{name}</code> <span class="badge">{list}</span> <span class="badge">{change}</span>{' '}
        <Status tone={TONES[severity]} text={severity === 'breaking' ? 'breaking for callers' : severity} />
      </h3>
      <p>
        {reasons.join('; ')}
        {reasons.length === 0 ? '' : '. '}
        <span class="soft">Meanwhile {OFFERED[offered]}.</span>
      </p>
      {list === 'tools' && users !== null ? <p class="soft">{usersText(users.get(key) ?? [])}</p> : null}
      <div class="diff">
        {fields.map((field) => (
          <div key={field.pointer}>
            <h4>
              <code>{field.pointer === '' ? 'the whole definition' : field.pointer}</code>
            </h4>
            {field.words === null ? (
              <>
                {field.before === null ? null : <pre class="removed">{pretty(field.before)}</pre>}
                {field.after === null ? null : <pre class="added">{pretty(field.after)}</pre>}
              </>
            ) : (
              <p class="words">
                {field.words.map(({ kind, text }, at) =>
                  // Runs have no name but their place.
                  kind === 'same' ? text : kind === 'added' ? <ins key={at}>{text}</ins> : <del key={at}>{text}</del>,
                )}
              </p>
            )}
          </div>
        ))}
      </div>
      <p class="soft digest">
        Now <code>{digest ?? 'gone'}</code>, approved <code>{before ?? 'nothing'}</code>
      </p>
      <div class="actions">
        <Action
          label={change === 'removed' ? 'Approve that it is gone' : 'Approve as shown'}
          command={`trunkline drift approve ${shellWord(server)} ${word}`}
          run={() => approveDefinitions({ name: server, body: { definitions: [seen(one)] } })}
          done={`Approved ${name} of ${server}`}
          after={after}
        />
        {change === 'blocked' ? null : (
          <Action
            label="Block"
            command={`trunkline drift block ${shellWord(server)} ${word}`}
            careful
            run={() => blockDefinitions({ name: server, body: { definitions: [{ list, key }] } })}
            done={`Blocked ${name} of ${server}`}
            after={after}
          />
        )}
      </div>
    </article>
  );
}

/** Which clients have called the tool, of the calls that are kept; the one that ended last is the last. */
function usersText(calls: readonly Call[]): string {
  if (calls.length === 0) return 'No client has called it lately.';
  const users = Map.groupBy(calls, ({ client, principal }) => `${client ?? `an ${UNNAMED_CLIENT}`} as ${principal}`);
  const texts = [...users].map(([name, own]) => `${name} (${own.length}, last ${ago(own.at(-1)!.time)})`);
  return `Called lately by ${texts.join(', ')}.`;
}

function History({ server }: { server: string }) {
  const history = useReading(() => getDriftHistory({ name: server }), server, { lists: ['drift'] });
  if (history.value.value === null) return <Unread of={history} what="history" />;
  const { events } = history.value.value;
  return (
    <section class="panel" aria-label="History">
      <h2>History</h2>
      {events.length === 0 ? (
        <p class="soft">No history yet.</p>
      ) : (
        <ol class="plain-list">
          {events.map(({ id, at, kind, name, by, severity, text }) => (
            <li key={id}>
              <time datetime={at}>
                {new Date(at).toLocaleDateString()} {clock(at)}
              </time>{' '}
              <strong>{kind}</strong> {name === null ? '' : <code>{name.key === '' ? 'instructions' : name.key}</code>}{' '}
              {severity === null ? null : <span class="badge">{severity}</span>} {by === null ? '' : `by ${by}`}{' '}
              <span class="soft">{text}</span>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}
