import {
  approveDefinitions,
  blockDefinitions,
  type DriftReport,
  getDriftHistory,
  listDrift,
  type WaitingDefinition,
} from '../api/operations.ts';
import { Action } from '../parts/action.tsx';
import { useCalls } from '../parts/calls.ts';
import { shellWord } from '../parts/command.tsx';
import { Empty, Failure, Unread } from '../parts/notes.tsx';
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
      <Paged
        what="definitions"
        rows={waiting}
        keyOf={(one) => `${one.list} ${one.key} ${one.digest}`}
        show={(one) => <Waiting server={server} one={one} after={after} />}
      />
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

function seen({ list, key, digest }: WaitingDefinition) {
  return { list, key, digest };
}

function Waiting({ server, one, after }: { server: string; one: WaitingDefinition; after: () => void }) {
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
      {list === 'tools' ? <Users server={server} tool={key} /> : null}
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

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

/** As many as a node keeps. */
const KEPT_CALLS = 10_000;

/** Which clients have called the tool lately, of the calls that are kept. */
function Users({ server, tool }: { server: string; tool: string }) {
  const { calls } = useCalls(`server:"${server}" method:tools/call tool:"${tool.replaceAll('"', '*')}"`, KEPT_CALLS);
  if (calls.value === null) return null;
  const users = new Map<string, { count: number; last: string }>();
  for (const { client, principal, time, name: called } of calls.value) {
    // The filter takes capital letters for small ones.
    if (called !== tool) continue;
    const name = `${client ?? 'an unnamed client'} as ${principal}`;
    const known = users.get(name);
    users.set(name, {
      count: (known?.count ?? 0) + 1,
      last: known === undefined || time > known.last ? time : known.last,
    });
  }
  return (
    <p class="soft">
      {users.size === 0
        ? 'No client has called it lately.'
        : `Called lately by ${[...users].map(([name, { count, last }]) => `${name} (${count}, last ${ago(last)})`).join(', ')}.`}
    </p>
  );
}

function History({ server }: { server: string }) {
  const history = useReading(() => getDriftHistory({ name: server }), server, { lists: ['drift'] });
  if (history.value.value === null) return <Unread of={history} what="history" />;
  const { events } = history.value.value;
  return (
    <section class="panel" aria-label="History">
      <h2>History</h2>
      {events.length === 0 ? (
        <p class="soft">Nothing was seen of it yet.</p>
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
