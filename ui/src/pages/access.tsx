import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { callName } from '../../../src/model/call-labels.ts';
import {
  type Access as AccessTable,
  type Call,
  type Caller,
  type Explanation,
  explainCall,
  getAccess,
} from '../api/operations.ts';
import { useCalls } from '../parts/calls.ts';
import { Command, shellWord } from '../parts/command.tsx';
import { Empty, NotAnswered, Unread } from '../parts/notes.tsx';
import { clock, useReading } from '../parts/reading.ts';
import { Status } from '../parts/status.tsx';
import { Table } from '../parts/table.tsx';
import { errorText } from '../parts/toasts.tsx';
import { href, navigate, route } from '../router.ts';
import './operating.css';

const KEPT_REFUSALS = 200;

export default function Access() {
  const access = useReading(getAccess, '', {
    lists: ['configuration', 'drift'],
    events: ['added', 'replaced', 'removed', 'state'],
  });
  if (access.value.value === null) return <Unread of={access} what="access" />;
  const table = access.value.value;
  const [chosen, server] = route.value.rest;
  const caller = table.callers.find(({ principal }) => principal === chosen);
  return (
    <>
      <h1>Access</h1>
      <p>
        {table.unknownCallers === 'refuse'
          ? 'Callers need the key of an agent; others are refused.'
          : 'Callers without the key of an agent are let in as anonymous.'}{' '}
        <Command text="trunkline access" />
      </p>
      <Matrix table={table} />
      {caller === undefined ? null : <Rights table={table} caller={caller} server={server} />}
      <Why table={table} />
      <Refusals />
    </>
  );
}

/** Agents by servers: how many of the tools each may call. */
function Matrix({ table: { callers, servers } }: { table: AccessTable }) {
  if (callers.length === 0 || servers.length === 0) {
    return (
      <Empty title={callers.length === 0 ? 'No caller is let in' : 'There are no servers'}>
        <p>
          Agents are in the configuration under <code>agents</code>; servers are added with <code>trunkline add</code>.
        </p>
      </Empty>
    );
  }
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard
    <section class="scrolls panel" tabIndex={0} aria-label="What each caller may use">
      <table class="matrix">
        <thead>
          <tr>
            <th scope="col">Principal</th>
            {servers.map(({ server }) => (
              <th key={server} scope="col">
                {server}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {callers.map(({ principal, name, servers: rights }) => (
            <tr key={principal}>
              <th scope="row">
                <a href={href(['access', principal])}>{name}</a>
              </th>
              {rights.map(({ server, refusal, allowed, refused }, at) => (
                <td key={server}>
                  <a href={href(['access', principal, server])}>
                    {refusal !== null ? (
                      <Status tone="bad" text="refused" />
                    ) : servers[at]?.listed === false ? (
                      <Status tone="rest" text="not listed" />
                    ) : (
                      <Status
                        tone={refused.length === 0 ? 'good' : 'warn'}
                        text={refused.length === 0 ? `all ${allowed}` : `${allowed} of ${allowed + refused.length}`}
                      />
                    )}
                  </a>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

interface Row {
  readonly server: string;
  readonly tool: string;
  readonly policy: string | null;
  readonly reason: string;
}

function Rights({ table, caller, server }: { table: AccessTable; caller: Caller; server: string | undefined }) {
  const rows: Row[] = caller.servers.flatMap((one, at) => {
    if (server !== undefined && one.server !== server) return [];
    const { refusal } = one;
    const refused = new Map(one.refused.map((tool) => [tool.tool, tool]));
    return (table.servers[at]?.tools ?? []).map((tool) => {
      const why = refusal ?? refused.get(tool) ?? null;
      return { server: one.server, tool, policy: why?.policy ?? null, reason: why?.reason ?? '' };
    });
  });
  const ask = ({ server: of, tool }: Row) => navigate(['access', caller.principal, of], { tool });
  return (
    <section aria-label={`Rights of ${caller.name}`}>
      <h2>
        {caller.name}
        {server === undefined ? '' : ` at ${server}`} <a href={href(['access'])}>close</a>
      </h2>
      <Table
        label={`Tools that ${caller.name} may call`}
        rows={rows}
        keyOf={(row) => `${row.server} ${row.tool}`}
        onOpen={ask}
        columns={[
          {
            id: 'tool',
            title: 'Tool',
            width: 'minmax(8rem, 2fr)',
            cell: ({ tool }) => tool,
            order: ({ tool }) => tool,
          },
          {
            id: 'server',
            title: 'Server',
            width: 'minmax(6rem, 1fr)',
            cell: (row) => row.server,
            order: (row) => row.server,
            wideOnly: true,
          },
          {
            id: 'may',
            title: 'May call',
            width: '8rem',
            cell: ({ policy }) => <Status tone={policy === null ? 'good' : 'bad'} text={policy ?? 'yes'} />,
            order: ({ policy }) => policy ?? '',
          },
          { id: 'why', title: 'Why', width: 'minmax(8rem, 3fr)', wideOnly: true, cell: ({ reason }) => reason },
        ]}
        empty={
          <Empty title="No tools are known">
            <p>The server was not listed yet, or has none.</p>
          </Empty>
        }
      />
    </section>
  );
}

/** One hypothetical call, asked of the policies themselves. */
function Why({ table }: { table: AccessTable }) {
  const { rest, query } = route.value;
  const principal = useSignal('');
  const server = useSignal('');
  const tool = useSignal('');
  const found = useSignal<Explanation | null>(null);
  const error = useSignal<unknown>(null);
  const explain = async (): Promise<void> => {
    error.value = null;
    found.value = null;
    try {
      const asked = { name: server.value, principal: principal.value, tool: tool.value };
      found.value = await explainCall(asked);
    } catch (cause) {
      error.value = cause;
    }
  };
  const wanted = query.get('tool') ?? '';
  useEffect(() => {
    principal.value = rest[0] ?? table.callers[0]?.principal ?? 'operator';
    server.value = rest[1] ?? table.servers[0]?.server ?? '';
    tool.value = wanted;
    if (wanted !== '' && rest[1] !== undefined) void explain();
  }, [rest.join('/'), wanted]);
  const tools = table.servers.find((one) => one.server === server.value)?.tools ?? [];
  const caller = principal.value.replace(/^agent:/, '');
  return (
    <section class="panel" aria-label="Check a call">
      <h2>Check a call</h2>
      <form
        class="toolbar"
        onSubmit={(event) => {
          event.preventDefault();
          void explain();
        }}
      >
        <label>
          Principal{' '}
          <select value={principal.value} onChange={(event) => (principal.value = event.currentTarget.value)}>
            {[...table.callers.map((one) => one.principal), 'operator'].map((id) => (
              <option key={id}>{id}</option>
            ))}
          </select>
        </label>
        <label>
          Server{' '}
          <select value={server.value} onChange={(event) => (server.value = event.currentTarget.value)}>
            {table.servers.map((one) => (
              <option key={one.server}>{one.server}</option>
            ))}
          </select>
        </label>
        <label>
          Tool{' '}
          <input
            list="tools-of-server"
            required
            value={tool.value}
            onInput={(event) => (tool.value = event.currentTarget.value)}
          />
        </label>
        <datalist id="tools-of-server">
          {tools.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        <button type="submit">Evaluate</button>
        <Command
          text={`trunkline access why ${shellWord(caller)} ${shellWord(server.value)} ${shellWord(tool.value || 'TOOL')}`}
        />
      </form>
      {error.value === null ? null : <p role="alert">{errorText(error.value)}</p>}
      {found.value === null ? (
        <p class="soft">Evaluates the call policies in order. No call is sent or counted.</p>
      ) : (
        <Verdict found={found.value} />
      )}
    </section>
  );
}

function Verdict({ found }: { found: Explanation }) {
  const { allowed, decidedBy, verdicts, known, server, tool } = found;
  return (
    <div role="status">
      <p>
        <Status
          tone={allowed ? 'good' : 'bad'}
          text={allowed ? 'The call would be sent' : `The call would be refused by ${decidedBy}`}
        />
        {known ? '' : ` (${server} is not known to have a tool ${tool})`}
      </p>
      <ol>
        {verdicts.map(({ policy, verdict, code, reason }) => (
          <li key={policy}>
            <code>{policy}</code>{' '}
            <Status tone={verdict === 'passed' ? 'good' : verdict === 'refused' ? 'bad' : 'busy'} text={verdict} />{' '}
            {reason === null ? '' : reason} {code === null ? null : <span class="badge">{code}</span>}
          </li>
        ))}
      </ol>
    </div>
  );
}

/** The calls that were refused, as they come. */
function Refusals() {
  const { calls, silent, ...reading } = useCalls('outcome:REFUSED', KEPT_REFUSALS);
  if (calls.value === null) return <Unread of={reading} what="refused calls" />;
  const rows: readonly Call[] = calls.value.toReversed();
  return (
    <section aria-label="Refused calls">
      <h2>
        Refused calls <Command text="trunkline calls outcome:REFUSED" />
      </h2>
      <NotAnswered nodes={silent.value} again={reading.again} />
      <Table
        label="Refused calls, the newest first"
        rows={rows}
        keyOf={({ id }) => id}
        columns={[
          {
            id: 'time',
            title: 'Time',
            width: '6rem',
            cell: ({ time }) => clock(time),
            order: ({ time }) => time,
          },
          { id: 'who', title: 'Principal', width: 'minmax(6rem, 1fr)', cell: (call) => call.principal },
          {
            id: 'client',
            title: 'Client',
            width: 'minmax(6rem, 1fr)',
            wideOnly: true,
            cell: ({ client }) => client ?? '',
          },
          {
            id: 'what',
            title: 'What',
            width: 'minmax(8rem, 2fr)',
            cell: callName,
          },
          {
            id: 'why',
            title: 'Why',
            width: 'minmax(8rem, 3fr)',
            wideOnly: true,
            cell: ({ reason, error }) => reason ?? error,
          },
          { id: 'node', title: 'Node', width: '6rem', wideOnly: true, cell: ({ node }) => node ?? '' },
        ]}
        empty={<p class="soft">No call was refused lately.</p>}
      />
    </section>
  );
}
