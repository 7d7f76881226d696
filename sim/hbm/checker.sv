// Holds the commands of one pseudo-channel to a timing set. It knows the set and nothing of any
// controller. Every violation is counted and printed; with `fatal` the first ends the simulation.
//
// Rules and their numbers are in hbm_package, their meaning in rules.py.
module hbm_checker
  import hbm_package::*;
#(
  parameter int ROWS = 1024,
  parameter int ROW_BITS = 14
) (
  input  logic                 clk,
  input  logic                 rst,
  input  logic [7:0]           channel,
  input  timing_t              timing,
  input  logic                 fatal,

  input  logic [2:0]           row_command,
  input  logic [3:0]           row_bank,
  input  logic [ROW_BITS-1:0]  row_row,
  input  logic [1:0]           column_command,
  input  logic [3:0]           column_bank,

  output report_t              report,
  output tally_t               tally
);
  localparam int BANKS = 16;
  localparam longint NEVER = -(64'sd1 <<< 40);

  bit     started;  // nothing counts before the first reset
  longint now;      // cycles since reset

  // When a command last came, for a bank, for a bank group, for any bank.
  longint act[BANKS], pre[BANKS], rd[BANKS], wr[BANKS], refpb[BANKS];
  longint act_group[BANKS], rd_group[BANKS], wr_group[BANKS];
  longint any_act, any_pre, any_rd, any_wr, any_refpb, refab;
  longint activated[4];  // the last four of ACT and REFpb, the oldest first

  bit [BANKS-1:0] open, visited;
  bit [63:0]      busy;  // data bus, by cycle modulo 64
  longint         due[BANKS], refreshed[BANKS], deadline;

  // What was broken in this cycle, by rule; the last bank counts where there are several.
  bit [31:0]  pending;
  logic [3:0] pending_bank[32];
  longint     pending_distance[32], pending_required[32];

  function automatic void violate(
    rule_t rule, logic [3:0] bank, longint distance, longint required
  );
    pending[5'(rule)] = 1;
    pending_bank[5'(rule)] = bank;
    pending_distance[5'(rule)] = distance;
    pending_required[5'(rule)] = required;
    report.violations = report.violations + 1;
  endfunction

  // In one place and at the end of the cycle, because formatted text is a lot of code.
  function automatic void publish();
    for (int r = 0; r < 32; r++)
      if (pending[r]) begin
        rule_t rule = rule_t'(r);
        string text = $sformatf(
          "HBM%0d, cycle %0d: %s, bank %0d: %0d cycles, %0d required", channel, now, rule.name(),
          pending_bank[r], pending_distance[r], pending_required[r]);
        if (report.broken == 0) begin
          report.rule = rule;
          report.bank = 8'(pending_bank[r]);
          report.cycle = 32'(now);
          report.distance = 32'(pending_distance[r]);
          report.required = 32'(pending_required[r]);
        end
        report.broken[r] = 1;
        if (fatal) $error("%s", text);
        else $display("%s", text);
      end
    pending = 0;
  endfunction

  function automatic void need(rule_t rule, logic [3:0] bank, longint since, longint required);
    if (now - since < required) violate(rule, bank, now - since, required);
  endfunction

  function automatic longint latest(longint a, longint b);
    return a > b ? a : b;
  endfunction

  function automatic logic [3:0] group_of(logic [3:0] bank);
    return bank & 4'(timing.bank_groups - 1);
  endfunction

  // The latest command in a group other than `bank`'s.
  function automatic longint elsewhere(const ref longint last[BANKS], input logic [3:0] bank);
    longint result = NEVER;
    for (int g = 0; g < 32'(timing.bank_groups); g++)
      if (g != 32'(group_of(bank))) result = latest(result, last[4'(g)]);
    return result;
  endfunction

  // The latest ACT in another bank of the same group.
  function automatic longint beside(logic [3:0] bank);
    longint result = NEVER;
    for (int b = 0; b < BANKS; b++)
      if (b != 32'(bank) && group_of(4'(b)) == group_of(bank)) result = latest(result, act[b]);
    return result;
  endfunction

  function automatic longint latest_but(const ref longint last[BANKS], input logic [3:0] bank);
    longint result = NEVER;
    for (int b = 0; b < BANKS; b++) if (b != 32'(bank)) result = latest(result, last[b]);
    return result;
  endfunction

  // --- refresh deadlines ---------------------------------------------------------------------

  function automatic void find_deadline();
    deadline = 64'sd1 <<< 60;
    for (int b = 0; b < 32'(timing.banks); b++)
      if (due[b] < deadline) deadline = due[b];
    deadline = deadline + 64'(timing.postpone) * 64'(timing.refi);
  endfunction

  function automatic void refresh(logic [3:0] bank);
    due[bank] = (due[bank] < now ? due[bank] : now) + 64'(timing.refi);
    refreshed[bank] = now;
  endfunction

  function automatic void check_deadlines();
    for (int b = 0; b < 32'(timing.banks); b++) begin
      longint limit = due[b] + 64'(timing.postpone) * 64'(timing.refi);
      if (now > limit) begin
        violate(LATE, 4'(b), now - refreshed[b], limit - refreshed[b]);
        due[b] = due[b] + 64'(timing.refi);
      end
    end
    find_deadline();
  endfunction

  // --- row commands --------------------------------------------------------------------------

  // What ACT and REFpb have in common: both open a row inside a bank.
  function automatic void check_activation(logic [3:0] bank);
    need(RC, bank, act[bank], 64'(timing.rc));
    need(RP, bank, pre[bank], 64'(timing.rp));
    need(RFCPB, bank, refpb[bank], 64'(timing.rfc_pb));
    need(RREFD, bank, latest_but(refpb, bank), 64'(timing.rrefd));
    need(RRD_L, bank, beside(bank), 64'(timing.rrd_l));
    need(RRD_S, bank, elsewhere(act_group, bank), 64'(timing.rrd_s));
    need(FAW, bank, activated[0], 64'(timing.faw));
    activated[0] = activated[1];
    activated[1] = activated[2];
    activated[2] = activated[3];
    activated[3] = now;
  endfunction

  function automatic void check_close(logic [3:0] bank);
    if (open[bank]) begin
      need(RAS, bank, act[bank], 64'(timing.ras));
      need(RTP, bank, rd[bank], 64'(timing.rtp));
      need(WR, bank, wr[bank], 64'(timing.wl) + BURST + 64'(timing.wr));
    end
    pre[bank] = now;
    open[bank] = 0;
  endfunction

  function automatic void check_row();
    bit one = row_command inside {ROW_ACT, ROW_PRE, ROW_REFPB};
    if (row_command > ROW_REFAB) begin
      violate(ENCODING, row_bank, 64'(row_command), 64'(ROW_REFAB));
      return;
    end
    if (one && 16'(row_bank) >= timing.banks) begin
      violate(RANGE, row_bank, 64'(row_bank), 64'(timing.banks));
      return;
    end
    if (row_command == ROW_ACT && 32'(row_row) >= ROWS)
      violate(RANGE, row_bank, 64'(row_row), 64'(ROWS));
    need(ROW_BUS, row_bank, any_act, 2);
    need(RFCAB, row_bank, refab, 64'(timing.rfc_ab));
    case (row_command)
      ROW_ACT: begin
        if (open[row_bank]) violate(ACT_OPEN, row_bank, now - act[row_bank], 0);
        check_activation(row_bank);
        act[row_bank] = now;
        act_group[group_of(row_bank)] = now;
        any_act = now;
        open[row_bank] = 1;
        tally.act = tally.act + 1;
      end
      ROW_PRE: begin
        need(PPD, row_bank, any_pre, 64'(timing.ppd));
        need(RFCPB, row_bank, refpb[row_bank], 64'(timing.rfc_pb));
        check_close(row_bank);
        any_pre = now;
        tally.pre = tally.pre + 1;
      end
      ROW_PREA: begin
        need(PPD, row_bank, any_pre, 64'(timing.ppd));
        need(RFCPB, row_bank, any_refpb, 64'(timing.rfc_pb));
        for (int b = 0; b < BANKS; b++) check_close(4'(b));
        any_pre = now;
        tally.prea = tally.prea + 1;
      end
      ROW_REFPB: begin
        if (open[row_bank]) violate(REF_OPEN, row_bank, now - act[row_bank], 0);
        check_activation(row_bank);
        if (visited[row_bank] && timing.rotation[0])
          violate(ROTATION, row_bank, now - refreshed[row_bank], 0);
        visited[row_bank] = 1;
        if ($countones(visited) == 32'(timing.banks)) visited = 0;
        refpb[row_bank] = now;
        any_refpb = now;
        refresh(row_bank);
        find_deadline();
        tally.refpb = tally.refpb + 1;
      end
      ROW_REFAB: begin
        need(RFCPB, row_bank, any_refpb, 64'(timing.rfc_pb));
        for (int b = 0; b < BANKS; b++) begin
          if (open[b]) violate(REF_OPEN, 4'(b), now - act[b], 0);
          need(RC, 4'(b), act[b], 64'(timing.rc));
          refresh(4'(b));
        end
        need(RP, row_bank, any_pre, 64'(timing.rp));
        refab = now;
        visited = 0;
        find_deadline();
        tally.refab = tally.refab + 1;
      end
      default: ;
    endcase
  endfunction

  // --- column commands -----------------------------------------------------------------------

  function automatic void check_data_bus(logic [15:0] latency);
    bit [5:0] first = 6'(now) + latency[5:0];
    bit [5:0] second = first + 1;
    if (busy[first] || busy[second]) violate(DATA_BUS, column_bank, 0, BURST);
    busy[first] = 1;
    busy[second] = 1;
  endfunction

  function automatic void check_column();
    logic [3:0] bank = column_bank;
    logic [3:0] group = group_of(bank);
    if (column_command > COLUMN_WR) begin
      violate(ENCODING, bank, 64'(column_command), 64'(COLUMN_WR));
      return;
    end
    if (16'(bank) >= timing.banks) begin
      violate(RANGE, bank, 64'(bank), 64'(timing.banks));
      return;
    end
    if (!open[bank]) violate(CLOSED, bank, now - pre[bank], 0);
    if (column_command == COLUMN_RD) begin
      if (open[bank]) need(RCDRD, bank, act[bank], 64'(timing.rcd_rd));
      need(CCD_L, bank, rd_group[group], 64'(timing.ccd_l));
      need(CCD_S, bank, elsewhere(rd_group, bank), 64'(timing.ccd_s));
      need(WTR_L, bank, wr_group[group], 64'(timing.wl) + BURST + 64'(timing.wtr_l));
      need(WTR_S, bank, elsewhere(wr_group, bank), 64'(timing.wl) + BURST + 64'(timing.wtr_s));
      check_data_bus(timing.cl);
      rd[bank] = now;
      rd_group[group] = now;
      any_rd = now;
      tally.rd = tally.rd + 1;
    end else begin
      if (open[bank]) need(RCDWR, bank, act[bank], 64'(timing.rcd_wr));
      need(CCD_L, bank, wr_group[group], 64'(timing.ccd_l));
      need(CCD_S, bank, elsewhere(wr_group, bank), 64'(timing.ccd_s));
      need(RTW, bank, any_rd, 64'(timing.rtw));
      check_data_bus(timing.wl);
      wr[bank] = now;
      wr_group[group] = now;
      any_wr = now;
      tally.wr = tally.wr + 1;
    end
  endfunction

  always @(posedge clk) begin
    now = now + 1;
    // Column before row: a RD and the PRE of its bank in one cycle break RTP, not CLOSED.
    if (started && !rst) begin
      if (now > deadline && timing.refi != 0) check_deadlines();
      if (column_command != COLUMN_NOP) check_column();
      if (row_command != ROW_NOP) check_row();
      busy[6'(now)] = 0;
      if (pending != 0) publish();
    end

    if (rst) begin
      started = 1;
      now = 0;
      for (int b = 0; b < BANKS; b++) begin
        act[b] = NEVER;
        pre[b] = NEVER;
        rd[b] = NEVER;
        wr[b] = NEVER;
        refpb[b] = NEVER;
        act_group[b] = NEVER;
        rd_group[b] = NEVER;
        wr_group[b] = NEVER;
        due[b] = 64'(timing.refi);
        refreshed[b] = 0;
      end
      any_act = NEVER;
      any_pre = NEVER;
      any_rd = NEVER;
      any_wr = NEVER;
      any_refpb = NEVER;
      refab = NEVER;
      for (int i = 0; i < 4; i++) activated[i] = NEVER;
      open = 0;
      visited = 0;
      busy = 0;
      report = 0;
      tally = 0;
      find_deadline();
    end
  end
endmodule
