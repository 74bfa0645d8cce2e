import type { BusServing } from '../../bus/bus.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import type { Exchange, Flow } from '../../model/exchange.ts';
import type { Message } from '../../model/message.ts';
import { traceOf } from '../../protocol/trace-context.ts';
import { headOf, messageOf, packFrame, unpackFrame } from '../frames/frame.ts';
import type { ForwardedOptions } from './call-contexts.ts';
import type { AskHeader, ExchangeHeader } from './remote-calls.ts';

type HeaderOptions = ForwardedOptions & Partial<Pick<ExchangeHeader, 'paramHeaders'>>;

/** A request of a client of another node; its notifications and questions go through that node. */
export class ServedExchange implements Exchange {
  readonly id: string;
  readonly request: Message;
  readonly client: ClientProfile;
  readonly takesInputRequired: boolean;
  readonly sealsInput: boolean;
  readonly paramHeaders: Readonly<Record<string, string>> | null;
  readonly beginsTask: boolean;
  readonly waitsForTask: boolean;
  searchStartedAt?: number;
  attempts?: Exchange['attempts'];
  outlivesCaller = false;
  callerLost = false;
  /** Called once the caller has the outcome, or gets none any more; `callerLost` is up to date then. */
  onEnd: (() => void) | null = null;
  cancelled: string | null;
  onCancel: ((reason: string) => void) | null = null;
  readonly #serving: BusServing;
  #waiting: Set<Flow> | null = null;
  #full = false;

  constructor(serving: BusServing, id: string, request: Message, client: ClientProfile, options: HeaderOptions) {
    this.id = id;
    this.request = request;
    this.client = client;
    this.takesInputRequired = options.takesInputRequired;
    this.sealsInput = options.sealsInput;
    this.paramHeaders = options.paramHeaders ?? null;
    this.beginsTask = options.beginsTask;
    this.waitsForTask = options.waitsForTask;
    this.#serving = serving;
    this.cancelled = serving.cancelled;
    serving.onEnd = (callerLost) => {
      this.callerLost = callerLost;
      this.onEnd?.();
    };
    serving.onCancel = (reason) => {
      this.#release();
      if (!this.callerLost || !this.outlivesCaller) this.cancel(reason);
    };
    serving.onDrain = () => {
      this.#full = false;
      this.#release();
    };
  }

  /** The `traceparent` of the calling node's span, from the request. */
  get trace(): string | undefined {
    return traceOf(this.request) ?? undefined;
  }

  /** While the caller is slow, pauses `flow`, or drops a notification without one (progress, log). */
  emit(notification: Message, flow: Flow | null = null): void {
    if (this.#full && flow === null) return;
    const fits = this.#serving.emit(packFrame({ message: headOf(notification) }, [notification.bytes]));
    if (fits) return;
    this.#full = true;
    if (flow === null) return;
    this.#waiting ??= new Set();
    this.#waiting.add(flow);
    flow.pause();
  }

  async ask(request: Message, likely = false): Promise<Message> {
    const answer = await this.#serving.ask(packFrame({ message: headOf(request), likely }, [request.bytes]));
    const { header, pieces } = unpackFrame<AskHeader>(answer);
    return messageOf(header.message, pieces[0]!);
  }

  cancel(reason: string): void {
    this.cancelled = reason;
    this.onCancel?.(reason);
  }

  #release(): void {
    if (this.#waiting === null) return;
    for (const flow of this.#waiting) flow.resume();
    this.#waiting.clear();
  }
}
